"""Charts to SVG and PNG through Vega-Lite; files that are whole or not there."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import struct
import tempfile
import zlib
from pathlib import Path
from typing import Any, Self

import vl_convert

from . import fonts, theme
from .figures import Figure, Panel, still, wrap

VEGA_LITE = "v6.1"  # what Altair 6 writes
PNG_SCALE = 2.0
_CAPTION_CHARACTERS = 130
_NARROW_CAPTION_CHARACTERS = 92
_ID = re.compile(r'\bid="([^"]+)"')


def to_svg(spec: dict[str, Any], background: str | None) -> str:
    fonts.register()
    spec = top_level(still(spec), background)
    return vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE, allowed_base_urls=[])


def top_level(spec: dict[str, Any], background: str | None) -> dict[str, Any]:
    """A specification with what only the outermost one has. Nothing is hidden at first."""
    return spec | {"config": theme.config(background), "params": [{"name": theme.HIDDEN, "value": []}]}


def titled(panel: Panel) -> dict[str, Any]:
    return panel.spec | {"title": panel.title} if panel.title else panel.spec


def figure_svg(figure: Figure) -> str:
    """The whole figure on white, with its title and caption, as a file of its own."""
    columns = min(figure.columns, len(figure.panels))
    caption = wrap(figure.caption, _CAPTION_CHARACTERS if columns > 1 else _NARROW_CAPTION_CHARACTERS)
    spec = {
        "title": {"text": figure.title, "subtitle": caption, "fontSize": 18, "offset": 16},
        "concat": [titled(panel) for panel in figure.panels],
        "columns": columns,
    }
    return to_svg(spec, "#ffffff")


def panel_svg(panel: Panel, prefix: str) -> str:
    """One panel for the page: no background, ids that are unique on the page, words for screen readers."""
    svg = to_svg(titled(panel), None)
    # A page needs no namespaces.
    svg = re.sub(r' xmlns(:[a-z]+)?="[^"]*"', "", svg)
    for name in set(_ID.findall(svg)):
        svg = svg.replace(f'id="{name}"', f'id="{prefix}-{name}"').replace(
            f"url(#{name})", f"url(#{prefix}-{name})"
        )
    # Vega labels every mark for screen readers, in the order of drawing; one text for the whole says more.
    svg = re.sub(r' (aria-[a-z]+|role)="[^"]*"', "", svg)
    label = panel.alt.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def svg_file(svg: str) -> bytes:
    """A picture as a file of its own, with its font inside."""
    return svg.replace(">", f"><style>{fonts.css()}</style>", 1).encode()


def png_file(svg: str) -> bytes:
    """The same picture in pixels."""
    return _compressed(vl_convert.svg_to_png(svg, scale=PNG_SCALE))


def _compressed(png: bytes) -> bytes:
    """The same PNG in a third of the size: the renderer's encoder is in a hurry."""
    chunks: list[tuple[bytes, bytes]] = []
    at = 8  # past the signature
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        chunks.append((kind, png[at + 8 : at + 8 + length]))
        at += length + 12  # with length, kind and checksum
    pixels = zlib.decompress(b"".join(data for kind, data in chunks if kind == b"IDAT"))
    head = [chunk for chunk in chunks if chunk[0] not in (b"IDAT", b"IEND")]
    result = [png[:8]]
    for kind, data in (*head, (b"IDAT", zlib.compress(pixels, 6)), (b"IEND", b"")):
        result.append(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))
    return b"".join(result)


class Output:
    """Files of one directory, written beside their places and put there together.

    As a context manager: leaving it normally renames all of them, leaving it with an exception removes all.
    """

    def __init__(self, directory: str):
        self.directory = Path(directory)
        self._made: list[Path] = []
        self._waiting: list[tuple[str, Path]] = []

    def __enter__(self) -> Self:
        missing = [p for p in (self.directory, *self.directory.parents) if not p.exists()]
        for path in reversed(missing):
            path.mkdir()
            self._made.append(path)
        # Said before time is spent on drawing.
        if not self.directory.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(self.directory))
        return self

    def write(self, name: str, data: bytes) -> None:
        place = self.directory / name
        try:
            handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=self.directory)
            self._waiting.append((temporary, place))
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), 0o666 & ~_umask())
                os.fsync(file.fileno())
        except OSError as error:
            # The user knows the file by the name that it was to have.
            raise OSError(error.errno, error.strerror, str(place)) from None

    def __exit__(self, kind: type | None, *_: object) -> None:
        try:
            while kind is None and self._waiting:
                temporary, place = self._waiting[0]
                os.replace(temporary, place)
                self._waiting.pop(0)
        finally:
            for temporary, _place in self._waiting:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
            if self._waiting or kind is not None:
                for path in reversed(self._made):
                    with contextlib.suppress(OSError):
                        path.rmdir()


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
