"""How charts are put together: fast, and checked against Vega-Lite's grammar here."""

import xml.etree.ElementTree as ET

import altair as alt
import pytest
from attnscope_py import layers, render, theme
from attnscope_py.figures import panel
from attnscope_py.reading import load_run
from jsonschema import ValidationError
from specs import all_figures, check


# Guards the time that it takes to put charts together: without Altair's own layers and its search for what a text
# means, which together took more than all else that Python does for a report.
def test_without_altairs_layers(sweep_file, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("Altair copies or searches")

    monkeypatch.setattr(alt.LayerChart, "__init__", refuse)
    monkeypatch.setattr(alt.SchemaBase, "from_dict", refuse)
    assert all_figures([load_run(sweep_file)])


# Guards layers: a chart's data stand in it as they were given, and once where all layers have the same.
def test_layers():
    rows, others = theme.data([{"at": 1.5}]), theme.data([{"at": 2}])
    dot, rule = (
        getattr(alt.Chart(rows), mark)().encode(x=alt.X("at:Q")) for mark in ("mark_point", "mark_rule")
    )
    encoding = {"x": {"field": "at", "type": "quantitative"}}
    together = layers.layer(dot, rule, width=9, height=7)
    assert together == {
        "data": {"values": ({"at": 1.5},)},
        "layer": [{"mark": {"type": mark}, "encoding": encoding} for mark in ("point", "rule")],
        "width": 9,
        "height": 7,
    }
    apart = layers.layer(together, alt.Chart(others).mark_point().encode(x=alt.X("at:Q")))
    assert "data" not in apart
    assert apart["layer"][0] is together
    assert apart["layer"][1]["data"]["values"][0] == {"at": 2}


# Guards that tests see a specification that Vega-Lite's grammar does not have.
def test_specifications_are_checked():
    spec = panel("title", layers.layer(alt.Chart(theme.data([{"at": 1}])).mark_point()), "words").spec
    check(spec)
    spec["layer"][0]["mark"] = {"type": "cross"}
    with pytest.raises(ValidationError):
        check(spec)


# Guards words for those who do not see a picture: one text for the whole of a file too, and none for every mark.
def test_words_of_files(sweep_file):
    figure = next(figure for _, figure in all_figures([load_run(sweep_file)]) if figure.name == "speedup")
    root = ET.fromstring(render.figure_svg(figure))
    assert (root.get("role"), root.get("aria-label")) == ("img", figure.alt)
    assert not [e for e in root.iter() if e is not root and (e.get("role") or e.get("aria-label"))]
