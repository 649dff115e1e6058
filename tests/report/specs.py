"""Looking into the specifications of charts."""

from attnscope_py import analysis, draw


def all_figures(runs):
    sections = analysis.sections(runs)
    return [(section, figure) for section, found in draw.figures(sections) for figure in found]


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
