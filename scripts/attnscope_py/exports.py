"""Other tools' formats, made of one result file. Each holds measured rows only, one for each id, every number finite.

Google Benchmark JSON: docs/user_guide.md and src/json_reporter.cc of google/benchmark. github-action-benchmark: the
README of benchmark-action/github-action-benchmark, `customSmallerIsBetter`. Bencher: docs/reference/bencher-metric-format
of bencher.dev. OpenMetrics: the specification 1.0 of openmetrics.io.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from typing import Any

from . import statistics as st
from .reading import row_name
from .results import Row, Run

# What Google Benchmark's own files have; its tools need some of it, and no tool minds numbers beside it.
_LIBRARY_CONTEXT = (
    "date", "host_name", "executable", "num_cpus", "mhz_per_cpu", "cpu_scaling_enabled", "aslr_enabled", "caches",
    "load_avg", "library_version", "library_build_type", "json_schema_version",
)  # fmt: skip
_LIBRARY_ROW = (
    "name", "family_index", "per_family_instance_index", "run_name", "run_type", "repetitions", "repetition_index",
    "threads", "iterations", "real_time", "cpu_time", "time_unit", "label",
)  # fmt: skip


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _interval(row: Row) -> tuple[float, float]:
    """Of the median; the range where the samples are too few for one."""
    if row.samples_ns:
        found = st.median_interval(row.samples_ns)
        return found.low, found.high
    return row.min_ns, row.max_ns


def google_benchmark(run: Run) -> str:
    """Rows and context with the library's own fields, and our numbers as user counters."""
    measured = {row.id for row in run.rows}
    rows = []
    for entry in run.rows_in:
        if row_name(entry) not in measured:
            continue
        kept = {key: entry[key] for key in _LIBRARY_ROW if key in entry}
        counters = {
            key: value
            for key, value in entry.items()
            if key not in kept
            and isinstance(value, (int, float))
            and not isinstance(value, bool)
            and math.isfinite(value)
        }
        rows.append(kept | {"name": row_name(entry)} | counters)
    context = {key: run.context[key] for key in _LIBRARY_CONTEXT if key in run.context}
    return _json({"context": {"caches": [], **context}, "benchmarks": rows})


_ROW_COLUMNS: tuple[tuple[str, Callable[[Row], Any]], ...] = (
    ("id", lambda r: r.id),
    ("kind", lambda r: r.kind),
    ("pattern", lambda r: r.pattern),
    ("algorithm", lambda r: r.algorithm),
    ("isa", lambda r: r.isa),
    ("dtype", lambda r: r.dtype),
    ("stage", lambda r: r.stage),
    ("batch", lambda r: r.batch),
    ("heads", lambda r: r.heads),
    ("kv_heads", lambda r: r.kv_heads),
    ("queries", lambda r: r.queries),
    ("keys", lambda r: r.keys),
    ("head_dim", lambda r: r.head_dim),
    ("value_dim", lambda r: r.value_dim),
    ("threads", lambda r: r.threads),
    ("options", lambda r: " ".join(r.extras)),
)


def _machine(run: Run) -> dict[str, str]:
    found = {
        "host": run.host,
        "cpu": run.cpu,
        "fingerprint": run.machine,
        "commit": run.commit,
        "compiler": run.compiler,
    }
    return {key: value for key, value in found.items() if value}


def _csv(header: list[str], rows: list[list[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(["" if value is None else value for value in row] for row in rows)
    return text.getvalue()


def tidy_csv(run: Run) -> str:
    """A line for each row, a column for each thing said of it; times in nanoseconds. RFC 4180 with bare line feeds."""
    values: tuple[tuple[str, Callable[[Row], Any]], ...] = (
        ("median_ns", lambda r: r.median_ns),
        ("median_low_ns", lambda r: _interval(r)[0]),
        ("median_high_ns", lambda r: _interval(r)[1]),
        ("min_ns", lambda r: r.min_ns),
        ("max_ns", lambda r: r.max_ns),
        ("samples", lambda r: r.sample_count),
        ("pairs_useful", lambda r: _whole(r.pairs_useful)),
        ("pairs_executed", lambda r: _whole(r.pairs_executed)),
        ("pairs_dense", lambda r: _whole(r.pairs_dense)),
        ("flops_useful", lambda r: _whole(r.flops_useful)),
        ("pct_peak", lambda r: r.pct_peak),
        ("effective_ghz", lambda r: r.effective_ghz),
        ("workspace_bytes", lambda r: _whole(r.workspace_bytes)),
        ("cpu_share", lambda r: r.cpu_share),
    )
    columns = (*_ROW_COLUMNS, *values)
    machine = _machine(run)
    return _csv(
        [*machine, "date", *(name for name, _ in columns)],
        [[*machine.values(), run.date_of(row), *(get(row) for _, get in columns)] for row in run.rows],
    )


def samples_csv(run: Run) -> str:
    """A line for each sample: what was measured, its number in the row, its time in nanoseconds."""
    machine = _machine(run)
    lines = [
        [*machine.values(), run.date_of(row), *(get(row) for _, get in _ROW_COLUMNS), index, sample]
        for row in run.rows
        for index, sample in enumerate(row.samples_ns)
    ]
    return _csv([*machine, "date", *(name for name, _ in _ROW_COLUMNS), "sample", "time_ns"], lines)


def github_action_benchmark(run: Run) -> str:
    """For the tool customSmallerIsBetter. `range` is the half width of the median's interval."""
    entries = []
    for row in run.rows:
        low, high = _interval(row)
        extra = [f"{row.sample_count} samples"] if row.sample_count else []
        if row.pct_peak is not None:
            extra.append(f"{row.pct_peak:.1f} % of peak")
        if row.disturbed:
            extra.append("disturbed by other work")
        entries.append(
            {
                "name": row.id,
                "unit": "ns",
                "value": row.median_ns,
                "range": f"± {max(high - row.median_ns, row.median_ns - low):.6g}",
                "extra": "\n".join(extra),
            }
        )
    return _json(entries)


def bencher(run: Run) -> str:
    """Bencher Metric Format: measure `latency`, in nanoseconds, with the interval of the median."""
    found = {}
    for row in run.rows:
        low, high = _interval(row)
        found[row.id] = {"latency": {"value": row.median_ns, "lower_value": low, "upper_value": high}}
    return _json(found)


def _labels(pairs: dict[str, Any]) -> str:
    quoted = (
        (key, str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))
        for key, value in pairs.items()
        if value not in (None, "")
    )
    return "{" + ",".join(f'{key}="{value}"' for key, value in quoted) + "}"


def openmetrics(run: Run) -> str:
    """Gauges by row, in base units (seconds, bytes, ratios), and an info metric of the machine. No timestamps: what
    collects a file dates it."""
    gauges: tuple[tuple[str, str, str, Callable[[Row], float | None]], ...] = (
        ("time_seconds", "seconds", "Median time of a call.", lambda r: r.median_ns / 1e9),
        ("time_low_seconds", "seconds", "Lower end of its 95 % interval.", lambda r: _interval(r)[0] / 1e9),
        ("time_high_seconds", "seconds", "Upper end of its 95 % interval.", lambda r: _interval(r)[1] / 1e9),
        ("peak_ratio", "ratio", "Useful FLOPs over the FMA peak measured beside the row.", lambda r: _share(r.pct_peak)),
        ("cpu_share_ratio", "ratio", "CPU time over wall time of the row.", lambda r: r.cpu_share),
        ("workspace_bytes", "bytes", "Workspace of a call.", lambda r: r.workspace_bytes),
    )  # fmt: skip
    lines = ["# TYPE attnscope_machine info", "# HELP attnscope_machine What was measured on, and by what."]
    machine = _labels(_machine(run) | {"date": run.date})
    lines.append(f"attnscope_machine_info{machine} 1")
    for name, unit, text, get in gauges:
        metric = f"attnscope_{name}"
        lines += [f"# TYPE {metric} gauge", f"# UNIT {metric} {unit}", f"# HELP {metric} {text}"]
        for row in run.rows:
            value = get(row)
            if value is not None:
                labels = {key: column(row) for key, column in _ROW_COLUMNS}
                lines.append(f"{metric}{_labels(labels)} {value:.9g}")
    return "\n".join(lines) + "\n# EOF\n"


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _whole(value: float | None) -> int | float | None:
    return int(value) if value is not None and value == int(value) else value


# By the names in command_export.FORMATS.
MAKERS: dict[str, Callable[[Run], str]] = {
    "google-benchmark": google_benchmark,
    "csv": tidy_csv,
    "csv-samples": samples_csv,
    "github-action": github_action_benchmark,
    "bencher": bencher,
    "openmetrics": openmetrics,
}
