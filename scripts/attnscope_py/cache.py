"""Texts that take long to make and depend on installed packages alone: kept in the user's cache from one run to the next."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def cached(name: str, made_of: str, make: Callable[[], str]) -> str:
    """What `make` returns, or what it returned before; `name` is of a file, and `made_of` tells all that it depends on."""
    path = _place(name, made_of)
    text = _kept(path) if path else None
    if text is None:
        text = make()
        if path:
            _keep(path, text)
    return text


def _place(name: str, made_of: str) -> Path | None:
    base = os.environ.get("XDG_CACHE_HOME") or (
        os.path.join(os.environ["HOME"], ".cache") if os.environ.get("HOME") else ""
    )
    if not os.path.isabs(base):
        return None
    stem, ending = os.path.splitext(name)
    return Path(base) / "attnscope" / f"{stem}-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}{ending}"


def _kept(path: Path) -> str | None:
    """What is in the cache, if it is whole: the first line is the hash of the rest."""
    try:
        head, _, text = path.read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError):
        return None
    return text if head == f"// {hashlib.sha256(text.encode()).hexdigest()}" else None


def _keep(path: Path, text: str) -> None:
    """A cache that cannot be written is none."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f"// {hashlib.sha256(text.encode()).hexdigest()}\n{text}")
        os.replace(temporary, path)
