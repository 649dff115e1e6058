"""Files that are whole or not there: written beside their places, and put there when they are whole."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path


def same_file(path: str, other: str) -> bool:
    """Would writing the one replace the other?"""
    return os.path.realpath(path) == os.path.realpath(other)


def refuse_standard_output(place: Path) -> None:
    """OSError if a standard descriptor of this process is open for writing on the file that stands there, as with
    `--out /dev/stdout >file`: it would be replaced under the descriptor, and what is printed there would be lost."""
    for descriptor, name in enumerate(("input", "output", "error")):
        with contextlib.suppress(FileNotFoundError):  # nothing stands there
            found = os.stat(place)
            try:
                same = os.path.samestat(os.fstat(descriptor), found)
                writes = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
            except OSError:  # a closed one
                continue
            if same and writes:
                what = f"standard {name} is open on it; name another file"
                raise PermissionError(errno.EACCES, what, str(place))


def _new_file_mode() -> int:
    os.umask(mask := os.umask(0))
    return 0o666 & ~mask


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Signals that would end the program wait until this is done: what belongs together is there, or none of it. By
    handlers: a mask holds for one thread, and a signal then comes to another."""
    waiting: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: waiting.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if waiting:
        signal.raise_signal(waiting[0])


def _beside(place: Path, data: bytes, mode: int) -> str:
    """A temporary file beside the place, whole and on the disk."""
    handle, temporary = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
    except BaseException:
        _remove(temporary)
        raise
    return temporary


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def write_file(path: str, text: str) -> None:
    """Puts the text in the place of a file, or makes one: with the mode of the file that is replaced, and through a
    link into what it points to. OSError when that cannot be done."""
    try:
        found = os.stat(path)
    except FileNotFoundError:  # a loop of links is another error, and goes to the caller
        found = None
    place = Path(os.path.realpath(path))
    if found and not stat.S_ISREG(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "not a regular file", path)
    refuse_standard_output(place)
    if found:
        # A rename would replace a file that its owner has write-protected.
        if not os.access(place, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    mode = stat.S_IMODE(found.st_mode) if found else _new_file_mode()
    with _uninterrupted():
        temporary = _beside(place, text.encode(), mode)
        try:
            os.replace(temporary, place)
        except BaseException:
            _remove(temporary)
            raise


class Directory:
    """Files of one directory that are put there together.

    As a context manager: leaving it normally renames all of them, leaving it with an exception removes all.
    """

    def __init__(self, directory: str):
        self.directory = Path(directory)
        self._made: list[Path] = []
        self._waiting: list[tuple[str, Path]] = []

    def __enter__(self) -> Directory:
        missing = [p for p in (self.directory, *self.directory.parents) if not p.exists()]
        try:
            with _uninterrupted():
                for path in reversed(missing):
                    path.mkdir()
                    self._made.append(path)
        except BaseException:
            self._remove_made()
            raise
        # Said before time is spent on drawing.
        if not self.directory.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(self.directory))
        return self

    def write(self, name: str, data: bytes) -> None:
        place = self.directory / name
        refuse_standard_output(place)
        try:
            with _uninterrupted():
                self._waiting.append((_beside(place, data, _new_file_mode()), place))
        except OSError as error:
            # The user knows the file by the name that it was to have.
            raise OSError(error.errno, error.strerror, str(place)) from None

    def __exit__(self, kind: type | None, *_: object) -> None:
        with _uninterrupted():
            try:
                while kind is None and self._waiting:
                    temporary, place = self._waiting[0]
                    os.replace(temporary, place)
                    self._waiting.pop(0)
            finally:
                for temporary, _place in self._waiting:
                    _remove(temporary)
                if self._waiting or kind is not None:
                    self._remove_made()

    def _remove_made(self) -> None:
        for path in reversed(self._made):
            with contextlib.suppress(OSError):
                path.rmdir()
