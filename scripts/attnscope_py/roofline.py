"""The machine's limits, as a result file has them: peaks by ISA level, and bandwidths by level of memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .results import Row, Run

_LEVEL_NAMES = {"l1d": "L1d", "l2": "L2", "l3": "L3", "memory": "memory"}


@dataclass(frozen=True)
class Ceilings:
    """What some number of threads can do at most, all measured."""

    fma: dict[str, float]  # GFLOP/s by ISA level
    exp: dict[str, float]  # 10^9 exponentials a second by ISA level
    read: dict[str, float]  # GB/s by level of memory, the nearest first

    def exp_flops(self, isa: str, row: Row) -> float | None:
        """GFLOP/s at which one exponential for each pair would be all that the CPU can do."""
        rate = self.exp.get(isa)
        return 2 * (row.head_dim + row.value_dim) * rate if rate and row.head_dim and row.value_dim else None


def intensity(row: Row) -> float | None:
    """Useful FLOPs for each byte that has to be moved at least."""
    flops, moved = row.flops_useful, row.bytes_compulsory
    return flops / moved if flops and moved else None


def gflops(row: Row) -> float | None:
    return row.flops_useful / row.median_ns if row.flops_useful else None


def limit_text(row: Row) -> str:
    """What the harness says the row is nearest to, in words; empty where the file does not say."""
    kind, _, level = (row.limited_by or "").rstrip(")").partition("(")
    return f"{kind} of {_LEVEL_NAMES.get(level, level)}" if level else kind


def ceilings(run: Run, threads: int | None) -> Ceilings | None:
    """Those for this number of threads; None where the file has none."""
    for entry in run.context.get("roofline", []):
        if entry.get("threads") == (threads or 1):
            levels, isas = entry.get("level", {}), entry.get("isa", {})
            ordered = [*(name for name in _LEVEL_NAMES if name in levels), *(levels.keys() - _LEVEL_NAMES)]
            found = Ceilings(
                _numbers(isas, "fma_gflops"),
                _numbers(isas, "exp_g"),
                _numbers({_LEVEL_NAMES.get(name, name): levels[name] for name in ordered}, "read_gbs"),
            )
            if found.fma and found.read:
                return found
    return None


def _numbers(objects: dict[str, dict[str, Any]], name: str) -> dict[str, float]:
    """Those above 0; what was not measured is missing or 0."""
    return {key: float(value[name]) for key, value in objects.items() if value.get(name, 0) > 0}
