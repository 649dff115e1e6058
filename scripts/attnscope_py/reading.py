"""Result files as `attnscope bench` writes them: strict reading into runs and rows.

What a file must have, it is refused without (ResultError, one line): strict JSON, what results.schema.json says of its
parts, ids that are unique, times that are numbers of a size that something may take. What is there for comfort
(samples, pair counts, peaks, the machine's name) may be missing, and what depends on it is then left out. A row that
was not measured (an error, a time of 0, a speed that cannot be) is kept apart with its reason. Nothing behind this looks at types again.
"""

from __future__ import annotations

import functools
import json
import math
import re
from pathlib import Path
from typing import Any

from . import strict_json
from .results import PEAK_LIMIT, Excluded, ResultError, Row, Run

# Far beyond what can be measured on either side, and near enough that products, quotients and axes of such numbers
# are finite and not 0: a time of a clock tick's thousandth to some 30 years, counts and rates of any machine. The
# schema has the same bounds for what it speaks of.
_TIMES_NS = (1e-3, 1e18)
_LEAST, _MOST = 1e-30, 1e30
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


def row_name(row: dict[str, Any]) -> str:
    """The id; of a file that Google Benchmark wrote by itself the name, which is the same."""
    return row.get("id") or row.get("name") or ""


def _number(row: dict[str, Any], key: str, where: str) -> float | None:
    value = row.get(key)
    if value is None:
        return None
    if value < 0:
        raise ResultError(f"{where}: {key} is {_size(value)}, below 0")
    if value > _MOST:
        raise ResultError(f"{where}: {key} is {_size(value)}, above {_MOST:g}")
    if 0 < value < _LEAST:
        raise ResultError(f"{where}: {key} is {_size(value)}, between 0 and {_LEAST:g}")
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


def _string(row: dict[str, Any], key: str) -> str | None:
    return row.get(key) or None


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
    values = row.get("samples_ns") or ()
    for value in values:
        # One by one by the schema they would take longer than all else.
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ResultError(f"{where}: samples_ns holds {_shown(value)}, not a time")
    return tuple(_time(value, "ns", "a time of samples_ns", where) for value in values)


def _parse_row(row: dict[str, Any], row_id: str, where: str) -> Row | Excluded:
    if row.get("error_occurred"):
        return Excluded(row_id, _string(row, "error_message") or "error without a message")
    if row.get("skipped"):
        return Excluded(row_id, _string(row, "skip_message") or "skipped")
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
    pct_peak = _number(row, "pct_peak", where)
    if pct_peak is not None and pct_peak > PEAK_LIMIT:
        # As the harness has it: no speed of that row is to be believed, in no chart and no ratio.
        return Excluded(
            row_id, f"fault of measurement: {pct_peak:.0f} % of the measured peak, above {PEAK_LIMIT:.0f} %"
        )
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
    limited_by = _string(row, "limited_by")
    return Row(
        id=row_id,
        kind=said["kind"],
        isa=_string(row, "isa") or said.get("isa"),
        algorithm=_string(row, "algorithm") or _string(row, "kernel") or said.get("algorithm"),
        pattern=_string(row, "pattern") or said.get("pattern"),
        dtype=_string(row, "dtype") or said.get("dtype"),
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
        stage=_string(row, "stage") or said["stage"],
        median_ns=middle,
        min_ns=ordered[0] if ordered else (low or middle),
        max_ns=ordered[-1] if ordered else (high or middle),
        samples_ns=samples,
        sample_count=len(samples) or _count(row, "sample_count", where),
        pairs_useful=_number(row, "pairs_useful", where),
        pairs_executed=_number(row, "pairs_executed", where),
        pairs_dense=_number(row, "pairs_dense", where),
        flops_useful=_number(row, "flops_useful", where),
        bytes_compulsory=_number(row, "bytes_compulsory", where),
        pct_peak=pct_peak,
        pct_bandwidth=_number(row, "pct_bandwidth", where),
        limited_by=limited_by,
        limit_pct=_number(row, f"limit_{limited_by.partition('(')[0]}_pct", where) if limited_by else None,
        effective_ghz=_number(row, "effective_ghz", where),
        workspace_bytes=_number(row, "workspace_bytes", where),
        resident_bytes=_number(row, "resident_row_bytes", where),
        counters=row.get("counters", {}),
        presets=tuple(name for name in row.get("presets", "").split(",") if name),
        session=row.get("session"),
        date=_string(row, "date"),
        cpu_share=_number(row, "cpu_share", where),
        stolen_ns=_number(row, "stolen_ns", where),
        bandwidth_doubted=row.get("bandwidth_doubted", False),
    )


@functools.cache
def _schema() -> Any:
    import jsonschema  # here, so that --help and wrong usage need no package

    text = Path(__file__).with_name("results.schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


_EXPECTED = {"object": "an object", "array": "a list", "string": "a text", "boolean": "true or false"}


def _expected(rule: str, value: Any) -> str:
    """What a rule of the schema asks for, in words."""
    if rule == "type":
        names = value if isinstance(value, list) else [value]
        return "not " + " or ".join(
            _EXPECTED.get(name, f"a{'n' * (name == 'integer')} {name}") for name in names
        )
    if rule == "enum":
        return f"not one of {', '.join(value)}"
    if rule == "not":  # the schema's way to leave out what lies between two numbers
        return f"between {value['exclusiveMinimum']:g} and {value['exclusiveMaximum']:g}"
    bounds = {"minimum": "below", "maximum": "above"}
    return f"{bounds.get(rule, rule)} {value}"


def _check_schema(path: str, root: Any) -> None:
    """The first thing that is not as results.schema.json has it, by its place."""
    error = next(_schema().iter_errors(root), None)
    if error is None:
        return
    place = list(error.absolute_path)
    where = path
    if place[:1] == ["benchmarks"] and len(place) > 1:
        where = f"{path}: row {place[1] + 1}"
        row = root["benchmarks"][place[1]]
        if len(place) > 2 and isinstance(row.get("id"), str):
            where = f"{path}: {row['id']}"
        place = place[2:]
    name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
    said = f"{where}: {name} is" if name else f"{where} is"
    raise ResultError(f"{said} {_shown(error.instance)}, {_expected(error.validator, error.validator_value)}")


def load_run(path: str) -> Run:
    """Reads one result file; ResultError when it cannot be used, with exit code 4 when nothing is in it."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ResultError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:  # a name that no file can have
        raise ResultError(f"cannot read {path}: {error}") from None
    try:
        root = strict_json.loads(data)
    except strict_json.JsonError as error:
        raise ResultError(f"{path}: {error}") from None
    if not isinstance(root, dict) or not isinstance(root.get("benchmarks"), list):
        raise ResultError(f"{path}: no list 'benchmarks'; not a result file of attnscope bench")
    if not isinstance(root.get("context"), dict):
        raise ResultError(f"{path}: no object 'context'; not a result file of attnscope bench")
    _check_schema(path, root)

    run = Run(path, root, [])
    seen: set[str] = set()
    for index, row in enumerate(root["benchmarks"]):
        if row.get("run_type") == "aggregate":
            continue
        where = f"{path}: row {index + 1}"
        row_id = row_name(row)
        if not row_id:
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
