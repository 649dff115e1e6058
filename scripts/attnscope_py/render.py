"""Charts to SVG and PNG through Vega-Lite."""

from __future__ import annotations

import re
import struct
import zlib
from typing import Any

import vl_convert

from . import fonts, theme
from .figures import Figure, Panel, still, title_lines, wrap

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
    return panel.spec | {"title": title_lines(panel.title)} if panel.title else panel.spec


def figure_svg(figure: Figure) -> str:
    """The whole figure on white, with its title and caption, as a file of its own."""
    columns = min(figure.columns, len(figure.panels))
    caption = wrap(figure.caption, _CAPTION_CHARACTERS if columns > 1 else _NARROW_CAPTION_CHARACTERS)
    spec = {
        "title": {"text": figure.title, "subtitle": caption, "fontSize": 18, "offset": 16},
        "concat": [titled(panel) for panel in figure.panels],
        "columns": columns,
    }
    return _labelled(to_svg(spec, "#ffffff"), figure.alt)


def panel_svg(panel: Panel, prefix: str) -> str:
    """One panel for the page: no background, ids that are unique on the page, words for screen readers."""
    svg = to_svg(titled(panel), None)
    # A page needs no namespaces.
    svg = re.sub(r' xmlns(:[a-z]+)?="[^"]*"', "", svg)
    for name in set(_ID.findall(svg)):
        svg = svg.replace(f'id="{name}"', f'id="{prefix}-{name}"').replace(
            f"url(#{name})", f"url(#{prefix}-{name})"
        )
    return _labelled(svg, panel.alt)


def _labelled(svg: str, words: str) -> str:
    """With one text for screen readers, and no others."""
    svg = re.sub(r' (aria-[a-z]+|role)="[^"]*"', "", svg)
    label = words.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def svg_file(svg: str) -> bytes:
    """A picture as a file of its own, with its font inside."""
    return svg.replace(">", f"><style>{fonts.css()}</style>", 1).encode()


def png_file(svg: str) -> bytes:
    """The same picture in pixels."""
    return _compressed(vl_convert.svg_to_png(svg, scale=PNG_SCALE))


def _compressed(png: bytes) -> bytes:
    """The same PNG in a third of the size: the renderer's encoder is in a hurry. (Level 6 takes half as long again for 4 %.)"""
    chunks: list[tuple[bytes, bytes]] = []
    at = 8  # past the signature
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        chunks.append((kind, png[at + 8 : at + 8 + length]))
        at += length + 12  # with length, kind and checksum
    pixels = zlib.decompress(b"".join(data for kind, data in chunks if kind == b"IDAT"))
    head = [chunk for chunk in chunks if chunk[0] not in (b"IDAT", b"IEND")]
    result = [png[:8]]
    for kind, data in (*head, (b"IDAT", zlib.compress(pixels, 4)), (b"IEND", b"")):
        result.append(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))
    return b"".join(result)
