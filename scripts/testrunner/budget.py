"""The time that a whole run may take: BUDGET minutes on two cores.

A clock would blame the suites for whatever else the machine does, and praise them for its other cores; CPU time
alone would not see a core that they leave idle. So what counts is how long the run would have taken on two cores
of its own: the clock without the share that other programs took, and no less than its CPU time on two cores.
"""

import os
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .results import FAILED, Case, SuiteResult

BUDGET = 35.0  # minutes
CORES = 2
# Of the first numbers behind "cpu": user, nice, system, idle, iowait, irq, softirq, steal. Neither idle core waits.
_IDLE = (3, 4)
_FIELDS = 8


@dataclass(frozen=True)
class Reading:
    """Seconds since some start: of the clock, of this run's programs that ended, of all cores while busy."""

    clock: float
    own: float
    busy: float
    cores: int


def busy_seconds(text: str, ticks: float) -> tuple[float, int]:
    """From /proc/stat: what all cores did since boot, for a hypervisor's other guests too, and their number."""
    lines = [line.split() for line in text.splitlines() if line.startswith("cpu")]
    cores = sum(line[0] != "cpu" for line in lines)
    every = next((line[1 : 1 + _FIELDS] for line in lines if line[0] == "cpu"), [])
    return sum(int(n) for at, n in enumerate(every) if at not in _IDLE) / ticks, cores


def read() -> Reading:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        text = Path("/proc/stat").read_text()
    except OSError:  # then the clock counts as it is
        text = ""
    busy, cores = busy_seconds(text, os.sysconf("SC_CLK_TCK"))
    return Reading(time.monotonic(), used.ru_utime + used.ru_stime, busy, cores)


def two_core_seconds(begin: Reading, end: Reading) -> float:
    """How long what ran between two readings takes on two cores of its own."""
    own = end.own - begin.own
    others = max(end.busy - begin.busy - own, 0.0)
    cores = max(end.cores, 1)
    alone = end.clock - begin.clock - others / cores
    return max(own / CORES, alone * min(cores / CORES, 1.0))


def over_budget(results: Sequence[SuiteResult]) -> list[Case]:
    """A failed case if the suites of a whole run took longer than the budget together."""
    minutes = sum(result.two_core_seconds for result in results) / 60
    if minutes <= BUDGET:
        return []
    slowest = sorted(results, key=lambda result: result.two_core_seconds, reverse=True)[:3]
    shown = ", ".join(f"{result.name} {result.two_core_seconds / 60:.1f}" for result in slowest)
    why = f"{minutes:.1f} min of two cores, the budget is {BUDGET:.0f}; the slowest: {shown}"
    return [Case("the whole run", FAILED, why)]
