"""The charts' font: measured and drawn with one and the same, and carried inside every file.

A chart is laid out for the widths of its letters. A viewer without that font would take a wider one and cut off
what stands at the edge; so SVG files and the page bring the letters they need.
"""

from __future__ import annotations

import base64
import functools
import io
from importlib.metadata import version
from pathlib import Path

import font_source_sans_pro
import vl_convert

from .cache import cached

FAMILY = "Source Sans Pro"
_FILES = {400: "SourceSansPro-Regular.ttf", 700: "SourceSansPro-Bold.ttf"}
_LETTERS = "".join(map(chr, range(0x20, 0x7F))) + "".join(map(chr, range(0xA1, 0x100))) + "–—…∞≤≥−"


@functools.cache
def register() -> None:
    """Makes the font known to the renderer."""
    vl_convert.register_font_directory(font_source_sans_pro.font_directory)


@functools.cache
def css() -> str:
    """@font-face rules with the letters of Latin languages, as data. They take most of a second to make."""
    made_of = " ".join(
        (*map(version, ("font-source-sans-pro", "fonttools")), FAMILY, _LETTERS, *_FILES.values())
    )
    return cached("fonts.css", made_of, _css)


def _css() -> str:
    # Here, since it takes long to load, and is seldom needed.
    from fontTools import subset, ttLib

    rules = []
    for weight, name in _FILES.items():
        font = ttLib.TTFont(Path(font_source_sans_pro.font_directory) / name, recalcTimestamp=False)
        options = subset.Options()
        options.layout_features = ["kern"]
        options.notdef_outline = True
        subsetter = subset.Subsetter(options)
        subsetter.populate(text=_LETTERS)
        subsetter.subset(font)
        font.flavor = "woff"
        data = io.BytesIO()
        font.save(data)
        source = base64.b64encode(data.getvalue()).decode()
        rules.append(
            f'@font-face{{font-family:"{FAMILY}";font-weight:{weight};'
            f'src:url("data:font/woff;base64,{source}") format("woff")}}'
        )
    return "".join(rules)
