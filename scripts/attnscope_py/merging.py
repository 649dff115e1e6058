"""Result files joined by machine: the rows of one machine in one file, and nothing that does not belong together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .reading import row_name
from .results import UNDISTURBED, Run


class MergeError(Exception):
    """Files that do not fit together: one line that names what differs."""

    def __init__(self, text: str, exit_code: int = 3):
        super().__init__(text)
        self.exit_code = exit_code


def _facts(source: Run) -> dict[str, Any]:
    """What has to be the same for rows to stand in one file, as `bench` says it and as `--resume` compares it."""
    conditions = source.context.get("conditions")
    if not conditions:
        raise MergeError(f"{source.path}: no conditions: it is not known how its rows were measured", 2)
    return dict(_leaves(conditions))


def _leaves(value: dict[str, Any], place: str = "") -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        if isinstance(inner, dict):
            yield from _leaves(inner, f"{place}{key}.")
        else:
            yield place + key, inner


def _check(first: Run, other: Run) -> None:
    a, b = _facts(first), _facts(other)
    differing = [
        f"{key} ({_shown(a.get(key))} and {_shown(b.get(key))})"
        for key in dict.fromkeys([*a, *b])
        if a.get(key) != b.get(key)
    ]
    if differing:
        raise MergeError(
            f"{first.path} and {other.path} are of one machine but differ in {'; '.join(differing)}: "
            "their rows would not be comparable"
        )


def _shown(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


_Kept = tuple[Run, dict[str, Any]]  # a row, and the file that it is from


def by_machine(sources: list[Run]) -> dict[str, list[Run]]:
    """The files of each fingerprint, in the order given."""
    groups: dict[str, list[Run]] = {}
    for source in sources:
        machine = source.machine
        if not machine:
            raise MergeError(f"{source.path}: no fingerprint: it is not known what machine was measured", 2)
        # It becomes the name of a file, and files come from other people's machines.
        if not re.fullmatch(r"[0-9a-f]{16}", machine):
            raise MergeError(
                f"{source.path}: the fingerprint {_shown(machine)!r} is not 16 hexadecimal digits", 2
            )
        groups.setdefault(machine, []).append(source)
    return groups


def _sessions(source: Run) -> list[dict[str, Any]]:
    """The sessions of a file, which `bench` always writes, and without which it resumes none."""
    sessions = source.context.get("sessions")
    if not sessions:
        raise MergeError(f"{source.path}: no sessions: it is not known when its rows were measured", 2)
    return sessions


def join(group: list[Run], prefer: str | None) -> dict[str, Any]:
    """One file of the files of one machine and build. Rows keep what they say; their sessions are numbered on.

    A row that several files hold is refused, unless `prefer` ("first" or "last") says whose is kept; one that was not
    measured gives way to one that was.
    """
    first = group[0]
    for other in group[1:]:
        _check(first, other)
    rows: dict[str, _Kept] = {}
    sessions: list[dict[str, Any]] = []
    for source in group:
        offset = len(sessions)
        sessions += _sessions(source)
        measured = {row.id for row in source.rows}
        for entry in source.rows_in:
            name = row_name(entry)
            moved = entry | {"session": offset + entry.get("session", 1)}
            there = rows.get(name)
            if there is None:
                rows[name] = (source, moved)
                continue
            other = there[0]
            had = any(row.id == name for row in other.rows)
            if had and name in measured and prefer is None:
                raise MergeError(
                    f"{name} is in {other.path} and in {source.path}; --prefer first or --prefer last says whose "
                    "is kept"
                )
            if name in measured and (not had or prefer == "last"):
                rows[name] = (source, moved)
    numbered = [entry | {"family_index": index} for index, (_, entry) in enumerate(rows.values())]
    return {"context": _context(group, rows, sessions), "benchmarks": numbered}


def _context(group: list[Run], rows: dict[str, _Kept], sessions: list[dict[str, Any]]) -> dict[str, Any]:
    """What the whole file says, as `bench --resume` joins it: the last file's word stands, but where one file's
    would hide another's."""
    contexts = [source.context for source in group]
    context: dict[str, Any] = {}
    for one in contexts:
        context |= one
    context["sessions"] = sessions
    context["merged_from"] = [
        {"host_name": source.host, "date": source.date, "rows": len(source.rows)} for source in group
    ]
    context["left_out"] = _still_missing(group, "left_out", rows)
    missing = _still_missing(group, "not_measured", rows)
    context["incomplete"] = bool(missing) or any(
        bool(one.get("incomplete")) and not one.get("not_measured") for one in contexts
    )
    context["not_measured"] = missing
    if not missing:
        del context["not_measured"]
    context["peak_gflops"] = _peaks(contexts)
    context["roofline"] = _limits(contexts)
    context["checksums_differ"] = _differing(group, rows)
    context["rows_disturbed"] = sum(_disturbed(entry) for _, entry in rows.values())
    context["elapsed_s"] = sum(one.get("elapsed_s", 0) for one in contexts)
    drifts = [one["drift"] for one in reversed(contexts) if "drift" in one]
    if drifts:
        context["drift"] = max(drifts, key=lambda drift: abs(drift.get("change", 0)))
    return context


def _disturbed(entry: dict[str, Any]) -> bool:
    return not entry.get("error_occurred") and entry.get("cpu_share", 1) < UNDISTURBED


def _peaks(contexts: list[dict[str, Any]]) -> dict[str, float]:
    """The largest of each level."""
    peaks: dict[str, float] = {}
    for context in contexts:
        for isa, value in context.get("peak_gflops", {}).items():
            peaks[isa] = max(value, peaks.get(isa, 0))
    return peaks


def _limits(contexts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Limits for each number of threads that a file looked at, by the last that did."""
    found: dict[Any, dict[str, Any]] = {}
    for context in reversed(contexts):
        for entry in context.get("roofline", []):
            found.setdefault(entry.get("threads"), entry)
    return list(found.values())


def _differing(group: list[Run], rows: dict[str, _Kept]) -> list[dict[str, Any]]:
    """Pairs of rows with sums that differ, of those that are kept."""
    return [
        entry
        for source in group
        for entry in source.context.get("checksums_differ", [])
        if all(name in rows and rows[name][0] is source for name in (entry.get("id"), entry.get("with")))
    ]


def _still_missing(group: list[Run], key: str, rows: dict[str, Any]) -> list[Any]:
    """Entries of this list whose row none of the files has, each once."""
    found: dict[str, Any] = {}
    for source in group:
        for entry in source.context.get(key, []):
            name = entry.get("id") if isinstance(entry, dict) else entry
            if name is not None and name not in rows:
                found[name] = entry
    return list(found.values())
