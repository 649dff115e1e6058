"""Files that are whole or not there."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path


def write_file(path: str, text: str) -> None:
    """Puts the text in the place of a file, or makes one: through a temporary file beside it, with the mode of the file
    that is replaced, and through a link into what it points to. OSError when that cannot be done."""
    place = Path(os.path.realpath(path))
    if place.exists() and not place.is_file():
        raise IsADirectoryError(0, "not a regular file", path)
    if place.exists():
        mode = stat.S_IMODE(place.stat().st_mode)
    else:
        os.umask(mask := os.umask(0))
        mode = 0o666 & ~mask
    handle, temporary = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
