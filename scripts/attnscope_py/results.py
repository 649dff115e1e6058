"""What a result file of `attnscope bench` holds: runs and their rows. reading.py makes them of a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

STAGES = ("qk", "scale", "mask", "softmax", "pv")
UNDISTURBED = 0.95  # share of its CPU below which a row was disturbed; BENCH_UNDISTURBED of the harness
PEAK_LIMIT = 105.0  # percent; more is a fault of the measurement: BENCH_FAULT_PCT of the harness


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
    limited_by: str | None  # the limit that the row is nearest to: "compute", "bandwidth(l2)", "overhead"
    limit_pct: float | None  # of the row's time, that this limit alone would take
    effective_ghz: float | None
    workspace_bytes: float | None
    resident_bytes: float | None  # how much more than before was resident while the row was made and measured
    counters: dict[
        str, Any
    ]  # of hardware, a call; or a reason why there are none; empty where the file is silent
    presets: tuple[str, ...]  # model shapes that the row stands for
    session: int | None
    date: str | None
    cpu_share: float | None  # CPU time over wall time of the row's threads, 0 to 1
    stolen_ns: float | None  # that a hypervisor took from the row's CPUs, over all samples
    bandwidth_doubted: (
        bool  # faster than the memory was read just then: what it is measured against does not hold
    )

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
    raw: dict[str, Any]  # the file, as results.schema.json has it
    rows: list[Row]
    excluded: list[Excluded] = field(default_factory=list)
    label: str = ""  # distinguishes the runs of one report; set by load_runs

    @property
    def context(self) -> dict[str, Any]:
        return self.raw["context"]

    def text(self, name: str) -> str | None:
        """A text of the context, if there is one."""
        value = self.context.get(name)
        return value.strip() or None if isinstance(value, str) else None

    @property
    def host(self) -> str:
        return self.text("host_name") or Path(self.path).stem

    @property
    def machine(self) -> str | None:
        return self.text("fingerprint")

    @property
    def cpu(self) -> str | None:
        return self.text("cpu_brand")

    @property
    def compiler(self) -> str | None:
        return self.text("compiler")

    @property
    def date(self) -> str | None:
        return self.text("date")

    @property
    def commit(self) -> str | None:
        return self.text("commit")

    def date_of(self, row: Row) -> str | None:
        """When a row was measured: of a file that was resumed or merged its session, not the last one."""
        sessions = self.context.get("sessions", [])
        number = row.session
        own = sessions[number - 1].get("date") if number and number <= len(sessions) else None
        return row.date or own or self.date

    @property
    def rows_in(self) -> list[dict[str, Any]]:
        """The rows as they stand in the file, without a library's aggregates."""
        return [row for row in self.raw["benchmarks"] if row.get("run_type") != "aggregate"]

    @property
    def disturbed(self) -> int:
        """How many rows other work disturbed: as the rows say, or where they do not, as the harness counted."""
        return sum(row.disturbed for row in self.rows) or self.context.get("rows_disturbed", 0)

    @property
    def cold(self) -> bool:
        """Did each call take tensors that no cache held?"""
        return self.context.get("settings", {}).get("cold", False)

    @property
    def conditions(self) -> str:
        """What its times are times of, where that is not the usual."""
        return "cold: each call reads tensors that no cache holds" if self.cold else ""

    @property
    def left_out(self) -> list[Excluded]:
        """Rows that the harness chose not to run, with its reasons."""
        return [
            Excluded(entry.get("id", "a row"), entry.get("reason", "no reason given"))
            for entry in self.context.get("left_out", [])
        ]

    def cache_bytes(self, level: int) -> int | None:
        """Size of one data or unified cache of this level (1 to 3), from Google Benchmark's list."""
        for cache in self.context.get("caches", []):
            if cache.get("type") != "Instruction" and cache.get("level") == level and cache.get("size"):
                return cache["size"]
        return None
