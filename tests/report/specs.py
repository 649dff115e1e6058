"""Looking into the specifications of charts."""

import altair as alt
from attnscope_py import analysis, draw


def planned(sections):
    """What there is to draw, checked against Vega-Lite's schema."""
    made = draw.figures(sections)
    for _, found in made:
        for figure in found:
            for panel in figure.panels:
                check(panel.spec)
    return made


def check(spec):
    """ValidationError for a specification that Vega-Lite's schema refuses."""
    alt.LayerChart.validate(spec)


def all_figures(runs):
    return [(section, figure) for section, found in planned(analysis.sections(runs)) for figure in found]


def walk(spec):
    """All objects inside a specification."""
    if isinstance(spec, dict):
        yield spec
        for value in spec.values():
            yield from walk(value)
    elif isinstance(spec, list):
        for value in spec:
            yield from walk(value)


def data(panel):
    """The rows of a panel's data; layers that share theirs carry it each."""
    rows = [row for part in walk(panel.spec) for row in part.get("values", []) if isinstance(row, dict)]
    return list({repr(row): row for row in rows}.values())
