"""Memory over n: the workspace that a call needs beside its tensors, and what was resident while it ran."""

from __future__ import annotations

import math

import altair as alt

from . import axes, formats, lines, theme
from .analysis import Section
from .figures import Figure, Panel, Table, provenance
from .series import Series, isa_rank

# The same as formats.size(), for axis labels.
_SIZE_EXPR = (
    "datum.value >= 1073741824 ? format(datum.value / 1073741824, '~r') + ' GiB'"
    " : datum.value >= 1048576 ? format(datum.value / 1048576, '~r') + ' MiB'"
    " : datum.value >= 1024 ? format(datum.value / 1024, '~r') + ' KiB'"
    " : format(datum.value, '~r') + ' B'"
)


def _workspace(s: Series) -> list[lines.Shown]:
    """It is counted, not measured: it has no interval. None at all has no place on a logarithmic axis."""
    return [
        lines.Shown(p.n, p.row, size, size, size, False) for p in s.points if (size := p.row.workspace_bytes)
    ]


def _resident(s: Series) -> list[lines.Shown]:
    """Pages that the kernel counts, one peak a row: without an interval too."""
    return [
        lines.Shown(p.n, p.row, size, size, size, False) for p in s.points if (size := p.row.resident_bytes)
    ]


def _quantity(title: str, values: lines.Values, series: list[Series]) -> lines.Quantity:
    axis = axes.log_axis(lines.numbers(series, values), lines.HEIGHT)
    powers = [2.0**e for e in range(61) if axis.low <= 2.0**e <= axis.high]
    step = max(1, round(len(powers) / 6))
    ticks = [power for power in powers if (math.log2(power) % 10) % step == 0]
    y = alt.Y(
        "y:Q",
        title=title,
        scale=axis.scale(),
        axis=alt.Axis(values=ticks, labelExpr=_SIZE_EXPR, grid=True),
    )
    return lines.Quantity(title, values, axis, y, formats.size, exact=True)


def _alike(series: list[Series], values: lines.Values) -> list[list[Series]]:
    """Series that need the same at every length: one line is enough for them."""
    found: dict[tuple, list[Series]] = {}
    for s in series:
        found.setdefault(tuple((p.at, p.value) for p in values(s)), []).append(s)
    return list(found.values())


# What is drawn, as it is called in a panel's title, and on its axis.
_KINDS = (
    ("workspace", "workspace of one call", _workspace),
    ("resident", "resident more than before", _resident),
)


def _panel(
    section: Section, kind: str, quantity: lines.Quantity, series: list[Series], marks: theme.Marks
) -> Panel:
    """Of one machine, at its widest ISA level."""
    isa = max((s.isa for s in series), key=isa_rank)
    alike = _alike([s for s in series if s.isa == isa], quantity.values)
    some = [same[0] for same in alike]
    others = {id(same[0]): len(same) - 1 for same in alike}
    name = f"{lines.name_of(section, some[0], isa)}: {kind}"
    last = {id(s): quantity.values(s)[-1] for s in some}
    said = "; ".join(
        f"{', '.join(s.variant.label for s in same)} {formats.size(last[id(same[0])].value)} at n={last[id(same[0])].at}"
        for same in alike
    )

    def label(s: Series) -> tuple[str, ...]:
        more = (f"and {others[id(s)]} more",) if others[id(s)] else ()
        return (*lines.wrap_pattern(s.variant.label), *more, formats.size(last[id(s)].value))

    words = f"{name}, at the largest n: {said}."
    return lines.line_panel(section, name, some, quantity, label, marks, words)


def memory(section: Section, marks: theme.Marks, suffix: str) -> Figure | None:
    """Panels for each machine, at its widest ISA level: others differ by little, and stand in the table."""
    panels: list[Panel] = []
    drawn: list[Series] = []
    shown = {kind: [s for s in section.series if len(values(s)) > 1] for kind, _title, values in _KINDS}
    if not shown["workspace"]:
        return None
    quantities = {
        kind: _quantity(title, values, shown[kind]) for kind, title, values in _KINDS if shown[kind]
    }
    for run in lines.runs_of(shown["workspace"]):
        for kind, quantity in quantities.items():
            some = [s for s in shown[kind] if s.run is run]
            if some:
                panels.append(_panel(section, kind, quantity, some, marks))
                drawn += some
    return Figure(
        f"memory{suffix}",
        "Memory against length",
        _caption(section, drawn),
        panels,
        _table(section),
        left_out=_left_out(section, shown["workspace"]),
    )


def _caption(section: Section, series: list[Series]) -> tuple[str, ...]:
    meaning = (
        "Workspace: what a call needs beside Q, K, V and the output, as its plan says, to the byte. Resident: how much more "
        "than just before the process had in memory at most while the row was made and measured, tensors and workspaces "
        "of all threads. At the widest ISA level; others stand in the table. Patterns that need the same share a line."
    )
    return (f"{section.group.label}.", meaning, *provenance(lines.runs_of(series)))


def _table(section: Section) -> Table:
    rows = tuple(
        (
            *lines.machine_cell(section, s.run),
            s.variant.label,
            s.isa,
            f"{p.n}",
            f"{p.row.workspace_bytes:.0f}",
            formats.size(p.row.workspace_bytes),
            formats.size(p.row.resident_bytes) if p.row.resident_bytes is not None else "",
            formats.size(p.row.bytes_compulsory) if p.row.bytes_compulsory else "",
        )
        for s in section.series
        for p in s.points
        if p.row.workspace_bytes is not None
    )
    columns = ("pattern · algorithm", "ISA level", "n", "workspace, bytes", "workspace", "resident")
    columns += ("Q, K, V and output",)
    return Table((*lines.machine_column(section), *columns), rows)


def _left_out(section: Section, series: list[Series]) -> list[str]:
    return [
        f"{lines.name_of(section, s, f'{s.variant.label}, {s.isa}')}: fewer than two lengths with a workspace"
        for s in section.series
        if s not in series
    ]
