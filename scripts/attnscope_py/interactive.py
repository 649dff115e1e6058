"""The page's scripts: Vega, which draws the same specifications as the files, and what makes them live."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import vl_convert

from . import theme
from .cache import cached
from .render import VEGA_LITE

_SNIPPET = "window.vegaEmbed = vegaEmbed;"
_DIGITS = 7  # of numbers in specifications: more than can be seen, fewer than Python writes


def library() -> str:
    """Vega-Embed with all that it needs, in one script that loads nothing. It takes two seconds to make."""
    return cached(
        "vega.js",
        f"{vl_convert.__version__} {VEGA_LITE} {_SNIPPET}",
        lambda: vl_convert.javascript_bundle(_SNIPPET, vl_version=VEGA_LITE),
    )


def scripts() -> tuple[str, ...]:
    """Both scripts of a page, in their order, as they stand in it."""
    found = (library(), Path(__file__).with_name("page.js").read_text(encoding="utf-8"))
    for script in found:
        # Inside a page these would end the script, or begin a comment.
        if any(text in script.lower() for text in ("</script", "<script", "<!--", "\r")):
            raise ValueError("a script that cannot stand inside a page")
    return found


def policy(found: Iterable[str]) -> str:
    """What lets exactly these scripts run, and nothing be loaded."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in found)
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    loaded = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:"
    return f"{loaded}; script-src {allowed}" if allowed else loaded


def charts(specs: dict[str, dict[str, Any]]) -> str:
    """The specifications by the id of their place, as JSON that can stand inside a page."""
    told = {"config": theme.config(None), "hidden": theme.HIDDEN, "panels": _short(specs)}
    text = json.dumps(told, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _short(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_short(inner) for inner in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
