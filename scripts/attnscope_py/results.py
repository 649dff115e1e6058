"""Result files as `attnscope bench` writes them: strict reading into runs and rows.

What a file must have, it is refused without (ResultError, one line): strict JSON, `context`, `benchmarks`, ids
that are unique, times that are numbers of a size that something may take. What is there for comfort (samples, pair counts, peaks, the machine's
name) may be missing, and what depends on it is then left out. A row that was not measured (an error, a time of
0) is kept apart with its reason.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import strict_json

STAGES = ("qk", "scale", "mask", "softmax", "pv")
UNDISTURBED = 0.95  # share of its CPU below which a row was disturbed; BENCH_UNDISTURBED of the harness
# Far beyond what can be measured on either side, and near enough that products, quotients and axes of such numbers
# are finite: a time of a clock tick's thousandth to some 30 years, counts and rates of any machine.
_TIMES_NS = (1e-3, 1e18)
_MOST = 1e30
_UNITS_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_ID_PARTS = (
    ("batch", re.compile(r"b(\d{1,18})")),
    ("heads", re.compile(r"h(\d{1,18})")),
    ("kv_heads", re.compile(r"kv(\d{1,18})")),
    ("head_dim", re.compile(r"d(\d{1,18})")),
    ("queries", re.compile(r"nq(\d{1,18})")),
    ("keys", re.compile(r"nk(\d{1,18})")),
    ("threads", re.compile(r"t(\d{1,18})")),
    ("value_dim", re.compile(r"dv(\d{1,18})")),
    ("keys", re.compile(r"n(\d{1,18})")),  # of a kernel
)


class ResultError(Exception):
    """A file that cannot be used: one line of text and the exit code that goes with it."""

    def __init__(self, text: str, exit_code: int = 2):
        super().__init__(text)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Row:
    """One measured row. Times are nanoseconds per call; what the file does not say is None."""

    id: str
    kind: str  # "attention", "kernel" or "other": the first word of the id
    isa: str | None  # the level that ran
    algorithm: str | None  # the algorithm that ran; for kernels their name
    pattern: str | None
    dtype: str | None
    batch: int | None
    heads: int | None
    kv_heads: int | None
    queries: int | None
    keys: int | None
    head_dim: int | None
    value_dim: int | None
    threads: int | None  # that were asked for, which is what rows are compared by; fewer may have had work
    extras: tuple[str, ...]  # suffixes of the id that are not default, without the stage
    stage: str | None
    median_ns: float
    min_ns: float
    max_ns: float
    samples_ns: tuple[float, ...]  # empty when the file has none
    sample_count: int | None
    pairs_useful: float | None
    pairs_executed: float | None
    pairs_dense: float | None
    flops_useful: float | None
    bytes_compulsory: float | None
    pct_peak: float | None
    pct_bandwidth: float | None
    bandwidth_level: str | None  # of memory, that pct_bandwidth speaks of
    limited_by: str | None  # the limit that the row is nearest to: "compute", "bandwidth(l2)", "overhead"
    limit_pct: float | None  # of the row's time, that this limit alone would take
    effective_ghz: float | None
    workspace_bytes: float | None
    cpu_share: float | None  # CPU time over wall time of the row's threads, 0 to 1

    @property
    def disturbed(self) -> bool:
        """Did other work run on this row's CPUs? Its time may then be too long."""
        return self.cpu_share is not None and self.cpu_share < UNDISTURBED


@dataclass(frozen=True)
class Excluded:
    """A row that was to be measured and was not."""

    id: str
    reason: str


@dataclass
class Run:
    """One result file: one machine, one build, one time."""

    path: str
    context: dict[str, Any]
    rows: list[Row]
    excluded: list[Excluded] = field(default_factory=list)
    label: str = ""  # distinguishes the runs of one report; set by load_runs

    def text(self, *names: str) -> str | None:
        """The first of these context fields that is there, as text; dots lead into objects."""
        for name in names:
            value: Any = self.context
            for part in name.split("."):
                value = value.get(part) if isinstance(value, dict) else None
            if isinstance(value, str) and value.strip():
                return value.strip()
            if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _MOST:
                return f"{value:g}"
        return None

    @property
    def host(self) -> str:
        return self.text("host_name") or Path(self.path).stem

    @property
    def machine(self) -> str | None:
        return self.text("fingerprint", "machine.fingerprint")

    @property
    def cpu(self) -> str | None:
        return self.text("cpu", "cpu_brand", "brand", "cpu.brand", "machine.brand", "machine.cpu")

    @property
    def compiler(self) -> str | None:
        return self.text("compiler", "machine.compiler", "build.compiler")

    @property
    def date(self) -> str | None:
        return self.text("date")

    @property
    def commit(self) -> str | None:
        return self.text("commit", "git_commit", "harness_commit", "build.commit", "harness_version")

    @property
    def disturbed(self) -> int:
        """How many rows other work disturbed: as the rows say, or where they do not, as the harness counted."""
        counted = self.context.get("rows_disturbed")
        by_row = sum(row.disturbed for row in self.rows)
        return by_row or (counted if isinstance(counted, int) and counted > 0 else 0)

    @property
    def left_out(self) -> list[Excluded]:
        """Rows that the harness chose not to run, with its reasons."""
        entries = self.context.get("left_out")
        return [
            Excluded(str(entry.get("id", "a row")), str(entry.get("reason", "no reason given")))
            for entry in (entries if isinstance(entries, list) else [])
            if isinstance(entry, dict)
        ]

    def cache_bytes(self, level: int) -> int | None:
        """Size of one data or unified cache of this level (1 to 3), from Google Benchmark's list."""
        caches = self.context.get("caches")
        for cache in caches if isinstance(caches, list) else []:
            if (
                not isinstance(cache, dict)
                or cache.get("type") == "Instruction"
                or cache.get("level") != level
            ):
                continue
            size = cache.get("size")
            if isinstance(size, int) and size > 0:
                return size
        return None


def _number(row: dict[str, Any], key: str, where: str) -> float | None:
    value = row.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ResultError(f"{where}: {key} is {_shown(value)}, not a number")
    if value < 0:
        raise ResultError(f"{where}: {key} is {_size(value)}, below 0")
    if value > _MOST:
        raise ResultError(f"{where}: {key} is {_size(value)}, above {_MOST:g}")
    return float(value)


def _time(value: float, unit: str, key: str, where: str) -> float:
    """Nanoseconds of a time that something may take."""
    least, most = _TIMES_NS
    time = value * _UNITS_NS[unit] if 0 <= value <= most else math.nan  # an integer may pass a double
    if not least <= time <= most:
        raise ResultError(f"{where}: {key} is {_size(value)} {unit}, expected {least:g} to {most:g} ns")
    return time


def _size(value: float) -> str:
    """A number that may be an integer of any length."""
    return _shown(value) if isinstance(value, int) else f"{value:g}"


def _count(row: dict[str, Any], key: str, where: str) -> int | None:
    value = _number(row, key, where)
    if value is None:
        return None
    if value != math.floor(value):
        raise ResultError(f"{where}: {key} is {value:g}, not a whole number from 0")
    return int(value)


def _string(row: dict[str, Any], key: str, where: str) -> str | None:
    value = row.get(key)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ResultError(f"{where}: {key} is {_shown(value)}, not a text")
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def parse_id(row_id: str) -> dict[str, Any]:
    """What a stable id says; parts that it does not have are missing, unknown ones are in `extras`.

    attention/<pattern>/<algorithm>/<isa>/<dtype>/b1/h8/.../t1[/suffix]... and kernel/<name>/<isa>/<dtype>/...
    """
    head, *rest = row_id.split("/")
    names = {
        "attention": ("pattern", "algorithm", "isa", "dtype"),
        "kernel": ("algorithm", "isa", "dtype"),
    }.get(head)
    found: dict[str, Any] = {"kind": head if names else "other", "extras": [], "stage": None}
    if not names:
        return found
    found.update(zip(names, rest, strict=False))
    for part in rest[len(names) :]:
        for key, form in _ID_PARTS:
            match = form.fullmatch(part)
            if match and key not in found:
                found[key] = int(match.group(1))
                break
        else:
            if part.startswith("stage:"):
                found["stage"] = part.removeprefix("stage:")
            else:
                found["extras"].append(part)
    return found


def _samples(row: dict[str, Any], where: str) -> tuple[float, ...]:
    values = row.get("samples_ns")
    if values is None:
        return ()
    if not isinstance(values, list):
        raise ResultError(f"{where}: samples_ns is {_shown(values)}, not a list")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ResultError(f"{where}: samples_ns holds {_shown(value)}, not a time")
    return tuple(_time(value, "ns", "a time of samples_ns", where) for value in values)


def _parse_row(row: dict[str, Any], row_id: str, where: str) -> Row | Excluded:
    if row.get("error_occurred"):
        return Excluded(row_id, _string(row, "error_message", where) or "error without a message")
    if row.get("skipped"):
        return Excluded(row_id, _string(row, "skip_message", where) or "skipped")
    unit = row.get("time_unit", "ns")
    if unit not in _UNITS_NS:
        raise ResultError(f"{where}: time_unit is {_shown(unit)}, not one of {', '.join(_UNITS_NS)}")
    time = _number(row, "real_time", where)
    samples = _samples(row, where)
    if time is None and not samples:
        raise ResultError(f"{where}: neither real_time nor samples_ns")
    if time == 0:
        return Excluded(row_id, "a time of 0")
    if time is not None:
        time = _time(time, unit, "real_time", where)
    ordered = sorted(samples)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2 if ordered else time
    low, high = (
        _time(value, "ns", key, where) if (value := _number(row, key, where)) else None
        for key in ("min_ns", "max_ns")
    )
    said = parse_id(row_id)

    def integer(key: str, *others: str) -> int | None:
        for name in (key, *others):
            value = _count(row, name, where)
            if value is not None:
                return value
        return said.get(key)

    heads = integer("heads")
    head_dim = integer("head_dim")
    kv_heads = integer("kv_heads")
    value_dim = integer("value_dim")
    limited_by = _string(row, "limited_by", where)
    return Row(
        id=row_id,
        kind=said["kind"],
        isa=_string(row, "isa", where) or said.get("isa"),
        algorithm=_string(row, "algorithm", where) or _string(row, "kernel", where) or said.get("algorithm"),
        pattern=_string(row, "pattern", where) or said.get("pattern"),
        dtype=_string(row, "dtype", where) or said.get("dtype"),
        batch=integer("batch"),
        heads=heads,
        kv_heads=kv_heads if kv_heads is not None else heads,
        queries=integer("queries"),
        keys=integer("keys", "n"),  # a kernel has one length, n
        head_dim=head_dim,
        value_dim=value_dim if value_dim is not None else head_dim,
        # In a file that Google Benchmark writes by itself the field is always 1.
        threads=said.get("threads", _count(row, "threads", where)) or None,
        extras=tuple(said["extras"]),
        stage=_string(row, "stage", where) or said["stage"],
        median_ns=middle,
        min_ns=ordered[0] if ordered else (low or middle),
        max_ns=ordered[-1] if ordered else (high or middle),
        samples_ns=samples,
        sample_count=len(samples) or _count(row, "sample_count", where) or _count(row, "samples", where),
        pairs_useful=_number(row, "pairs_useful", where),
        pairs_executed=_number(row, "pairs_executed", where),
        pairs_dense=_number(row, "pairs_dense", where),
        flops_useful=_number(row, "flops_useful", where),
        bytes_compulsory=_number(row, "bytes_compulsory", where),
        pct_peak=_number(row, "pct_peak", where),
        pct_bandwidth=_number(row, "pct_bandwidth", where),
        bandwidth_level=_string(row, "bandwidth_level", where),
        limited_by=limited_by,
        limit_pct=_number(row, f"limit_{limited_by.partition('(')[0]}_pct", where) if limited_by else None,
        effective_ghz=_number(row, "effective_ghz", where),
        workspace_bytes=_number(row, "workspace_bytes", where),
        cpu_share=_number(row, "cpu_share", where),
    )


def load_run(path: str) -> Run:
    """Reads one result file; ResultError when it cannot be used, with exit code 4 when nothing is in it."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ResultError(f"cannot read {path}: {error.strerror}") from None
    try:
        root = strict_json.loads(data)
    except strict_json.JsonError as error:
        raise ResultError(f"{path}: {error}") from None
    if not isinstance(root, dict) or not isinstance(root.get("benchmarks"), list):
        raise ResultError(f"{path}: no list 'benchmarks'; not a result file of attnscope bench")
    context = root.get("context")
    if not isinstance(context, dict):
        raise ResultError(f"{path}: no object 'context'; not a result file of attnscope bench")

    run = Run(path, context, [])
    seen: set[str] = set()
    for index, row in enumerate(root["benchmarks"]):
        if not isinstance(row, dict):
            raise ResultError(f"{path}: row {index + 1} is {_shown(row)}, not an object")
        if row.get("run_type") == "aggregate":
            continue
        where = f"{path}: row {index + 1}"
        row_id = _string(row, "id", where) or _string(row, "name", where)
        if row_id is None:
            raise ResultError(f"{where}: neither id nor name")
        if row_id in seen:
            raise ResultError(f"{where}: the id {row_id} stands twice in the file")
        seen.add(row_id)
        parsed = _parse_row(row, row_id, f"{path}: {row_id}")
        (run.rows if isinstance(parsed, Row) else run.excluded).append(parsed)
    if not run.rows:
        names = f" ({len(run.excluded)} failed, the first: {run.excluded[0].reason})" if run.excluded else ""
        raise ResultError(f"{path}: no row was measured{names}", 4)
    return run


def load_runs(paths: list[str]) -> list[Run]:
    """Reads the files and labels them by host, with the date or a number where one host comes twice."""
    runs = [load_run(path) for path in paths]
    for run in runs:
        run.label = run.host
    for attempt in ("date", "number"):
        labels = [run.label for run in runs]
        for index, run in enumerate(runs):
            if labels.count(labels[index]) > 1:
                date = (run.date or "")[:16].replace("T", " ")
                run.label = (
                    f"{run.host} {date}".strip() if attempt == "date" else f"{labels[index]} ({index + 1})"
                )
    return runs
