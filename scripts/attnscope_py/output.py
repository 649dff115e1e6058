"""Files that are whole or not there."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path


def same_file(path: str, other: str) -> bool:
    """Would writing the one replace the other?"""
    return os.path.realpath(path) == os.path.realpath(other)


def write_file(path: str, text: str) -> None:
    """Puts the text in the place of a file, or makes one: through a temporary file beside it, with the mode of the file
    that is replaced, and through a link into what it points to. OSError when that cannot be done."""
    try:
        found = os.stat(path)
    except FileNotFoundError:  # a loop of links is another error, and goes to the caller
        found = None
    place = Path(os.path.realpath(path))
    if found and not stat.S_ISREG(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "not a regular file", path)
    if found:
        # A rename would replace a file that its owner has write-protected.
        if not os.access(place, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        mode = stat.S_IMODE(found.st_mode)
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
