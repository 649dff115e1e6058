"""Charts above each other, as specifications.

Altair's own layers copy every chart below them, with its data, several times at each level, and look each text such as
"n:Q" up among all classes of Vega-Lite's grammar: of 34 panels that took four of five parts of the time. So charts are
put together here as dicts, and encodings are given as objects (alt.Text("n:Q")).
"""

from __future__ import annotations

from typing import Any

import altair as alt

Spec = dict[str, Any]  # Vega-Lite, without the parts that only a top level has


def layer(*parts: alt.Chart | Spec, **size: int) -> Spec:
    """The parts from below; `size` is width and height. Data that all of them have stand once, beside the layers."""
    layers = [_spec(part) for part in parts]
    data = [part.get("data", {}).get("values") for part in layers]
    shared: Spec = {}
    if data[0] is not None and all(values is data[0] for values in data):
        shared = {"data": layers[0]["data"]}
        layers = [{key: value for key, value in part.items() if key != "data"} for part in layers]
    return shared | {"layer": layers} | size


def _spec(part: alt.Chart | Spec) -> Spec:
    """A chart as a part of another one. Its data go past Altair, which would copy them number by number."""
    if isinstance(part, dict):
        return part
    bare = part.copy(deep=False)
    bare.data = alt.Undefined
    spec = bare.to_dict(validate=False, context={"top_level": False})
    return spec | {"data": {"values": part.data.values}}
