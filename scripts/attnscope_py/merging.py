"""Result files joined by machine: the rows of one machine in one file, and nothing that does not belong together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .results import Run

# What has to be the same for rows to stand in one file: the build, and how a row was measured. The fingerprint holds
# processor, topology, compiler, flags and libraries.
_SAME = (
    "fingerprint",
    "schema_version",
    "attnscope_version",
    "commit",
    "build_type",
    "compiler",
    "flags",
    "library_version",
)
_SETTINGS = ("warm_up_s", "seed")


class MergeError(Exception):
    """Files that do not fit together: one line that names what differs."""

    def __init__(self, text: str, exit_code: int = 3):
        super().__init__(text)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Source:
    """A file, as it is and as it was read."""

    run: Run
    raw: dict[str, Any]


def _facts(source: Source) -> dict[str, Any]:
    context = source.run.context
    settings = context.get("settings") if isinstance(context.get("settings"), dict) else {}
    found = {key: context.get(key) for key in _SAME}
    found |= {f"settings.{key}": settings.get(key, context.get(key)) for key in _SETTINGS}
    fields = context.get("machine", {}).get("fields") if isinstance(context.get("machine"), dict) else None
    return found | {f"machine.fields.{key}": value for key, value in (fields or {}).items()}


def _check(first: Source, other: Source) -> None:
    a, b = _facts(first), _facts(other)
    differing = [
        f"{key} ({_shown(a.get(key))} and {_shown(b.get(key))})"
        for key in dict.fromkeys([*a, *b])
        if a.get(key) != b.get(key)
    ]
    if differing:
        raise MergeError(
            f"{first.run.path} and {other.run.path} are of one machine but differ in {'; '.join(differing)}: "
            "their rows would not be comparable"
        )


def _shown(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def by_machine(sources: list[Source]) -> dict[str, list[Source]]:
    """The files of each fingerprint, in the order given."""
    groups: dict[str, list[Source]] = {}
    for source in sources:
        machine = source.run.machine
        if not machine:
            raise MergeError(
                f"{source.run.path}: no fingerprint: it is not known what machine was measured", 2
            )
        groups.setdefault(machine, []).append(source)
    return groups


def _sessions(context: dict[str, Any]) -> list[dict[str, Any]]:
    """The sessions of a file; one from before there were any is its own session."""
    found = context.get("sessions")
    if isinstance(found, list) and all(isinstance(entry, dict) for entry in found):
        return found
    keys = ("date", "binding", "peak_gflops", "roofline", "drift", "elapsed_s")
    return [{key: context[key] for key in keys if key in context}]


def join(group: list[Source], prefer: str | None) -> dict[str, Any]:
    """One file of the files of one machine and build. Rows keep what they say; their sessions are numbered on.

    A row that several files hold is refused, unless `prefer` ("first" or "last") says whose is kept; one that was not
    measured gives way to one that was.
    """
    first = group[0]
    for other in group[1:]:
        _check(first, other)
    context = dict(first.raw["context"])
    rows: dict[str, tuple[Source, dict[str, Any]]] = {}
    sessions: list[dict[str, Any]] = []
    for source in group:
        offset = len(sessions)
        sessions += _sessions(source.run.context)
        measured = {row.id for row in source.run.rows}
        for entry in source.raw["benchmarks"]:
            if entry.get("run_type") == "aggregate":
                continue
            name = entry.get("id") or entry["name"]
            moved = entry | {"session": offset + int(entry.get("session", 1))}
            there = rows.get(name)
            if there is None:
                rows[name] = (source, moved)
                continue
            other = there[0]
            had = any(row.id == name for row in other.run.rows)
            if had and name in measured and prefer is None:
                raise MergeError(
                    f"{name} is in {other.run.path} and in {source.run.path}; --prefer first or --prefer last says whose "
                    "is kept"
                )
            if name in measured and (not had or prefer == "last"):
                rows[name] = (source, moved)
    context["sessions"] = sessions
    context["incomplete"] = any(bool(source.run.context.get("incomplete")) for source in group)
    context["merged_from"] = [
        {"host_name": source.run.host, "date": source.run.date, "rows": len(source.run.rows)}
        for source in group
    ]
    for key in ("not_measured", "left_out"):
        context[key] = _still_missing(group, key, rows)
    peaks: dict[str, float] = {}
    for source in group:
        for isa, value in (source.run.context.get("peak_gflops") or {}).items():
            peaks[isa] = max(value, peaks.get(isa, 0))
    context["peak_gflops"] = peaks
    numbered = [entry | {"family_index": index} for index, (_, entry) in enumerate(rows.values())]
    return {"context": context, "benchmarks": numbered}


def _still_missing(group: list[Source], key: str, rows: dict[str, Any]) -> list[Any]:
    """Entries of this list whose row none of the files has, each once."""
    found: dict[str, Any] = {}
    for source in group:
        for entry in source.run.context.get(key) or []:
            name = entry.get("id") if isinstance(entry, dict) else entry
            if isinstance(name, str) and name not in rows:
                found[name] = entry
    return list(found.values())
