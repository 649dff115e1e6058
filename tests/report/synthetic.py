"""Result files with known answers, in the form that `attnscope bench` writes.

python3 tests/report/synthetic.py OUT.json [--host NAME] [--speed FACTOR]     a full standard sweep
"""

from __future__ import annotations

import argparse
import json
import math
import random
import zlib
from collections.abc import Callable, Sequence
from typing import Any

LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192)
PATTERNS = ("dense", "causal", "window=256", "window=64:64,sink=64,random=3:64:1")
# Nanoseconds for a useful pair, by ISA level.
PAIR_NS = {"scalar": 32.0, "avx2": 5.0, "avx512": 2.6, "neon": 9.0}
PEAK_GFLOPS = {"scalar": 9.0, "avx2": 70.0, "avx512": 140.0, "neon": 40.0}
# Of a call of naive; they add up to 1.
STAGE_SHARES = {"qk": 0.35, "scale": 0.05, "mask": 0.02, "softmax": 0.25, "pv": 0.33}


def useful_pairs(pattern: str, n: int) -> int:
    """As the definition of each pattern says; the drawn blocks of the last one are taken not to overlap."""
    if pattern == "dense":
        return n * n
    if pattern == "causal":
        return n * (n + 1) // 2
    if pattern == "window=256":
        return sum(min(i + 1, 256) for i in range(n))
    return sum(min(n, i + 65) - max(0, i - 64) + max(0, min(64, i - 64)) + min(192, n // 4) for i in range(n))


_PAIRS: dict[tuple[str, int], int] = {}


def pairs(pattern: str, n: int) -> int:
    if (pattern, n) not in _PAIRS:
        _PAIRS[pattern, n] = useful_pairs(pattern, n)
    return _PAIRS[pattern, n]


def roofline(threads: int, speed: float = 1.0) -> dict[str, Any]:
    """Ceilings in the form of `context.roofline`."""
    return {
        "threads": threads,
        "isa": {
            isa: {"fma_gflops": peak * speed * threads, "ghz": 4.1, "exp_g": peak / 25}
            for isa, peak in PEAK_GFLOPS.items()
        },
        "level": {
            name: {"bytes": size, "read_gbs": rate * speed, "copy_gbs": rate}
            for name, size, rate in (
                ("l1d", 24576, 220.0),
                ("l2", 524288, 110.0),
                ("l3", 16777216, 80.0),
                ("memory", 134217728, 22.0),
            )
        },
    }


def conditions() -> dict[str, Any]:
    """What rows of one file have in common, as `context.conditions` says it."""
    fields = {
        "arch": "x86-64",
        "vendor": "ExampleVendor",
        "brand": "Example Processor",
        "features": "avx avx2 fma f16c",
        "caches": "L1d 49152/1 x2, L2 1048576/1 x2, L3 33554432/8 x1",
        "build_type": "release",
        "compiler": "gcc 12.2.0",
        "flags": "-O2",
    }
    return {
        "schema_version": 1,
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "seed": 1,
        "settings": {
            "min_time_s": 0.5,
            "warm_up_s": 0.02,
            "fixed_calls": 0,
            "repetitions": 1,
            "one_call": False,
            "bind": True,
            "cold": False,
        },
        "machine": {"fields": fields},
        "memory": {"transparent_huge_pages": "madvise"},
    }


NO_COUNTERS = "not available: no hardware counters here, as in a virtual machine that is given none (ENOENT)"


def _session(date: str) -> dict[str, Any]:
    """What holds for one session; of the last one it stands in the context too."""
    return {
        "date": date,
        "binding": [{"thread": 0, "bound": True, "cpu": 0, "ran_on": 0}],
        "peak_gflops": dict(PEAK_GFLOPS),
        "roofline": [roofline(1)],
        "drift": {
            "id": "attention/dense/flash/avx2/f32/b1/h1/kv1/d64/nq256/nk256/t1",
            "first_ns": 171000.0,
            "last_ns": 171100.0,
            "change": 0.0006,
            "flagged": False,
        },
        "counters": {"available": False, "reason": NO_COUNTERS},
        "steal": {"available": True, "stolen_s": 0.0, "share": 0.0, "flagged": False},
        "elapsed_s": 47.5,
        "time": {"before_rows_s": 0.8, "rows_s": 46.7, "counting_s": 0.0, "overhead": 0.08},
    }


def context(host: str = "bench-host", **changes: Any) -> dict[str, Any]:
    """As a file of `attnscope bench` has it; `changes` replace fields, a value of None takes one away."""
    date = "2026-11-30T08:00:00+00:00"
    made = {
        "date": date,
        "host_name": host,
        "executable": "/usr/bin/attnscope-bench",
        "num_cpus": 2,
        "mhz_per_cpu": 4100,
        "cpu_scaling_enabled": False,
        "caches": [
            {"type": "Data", "level": 1, "size": 49152, "num_sharing": 1},
            {"type": "Instruction", "level": 1, "size": 32768, "num_sharing": 1},
            {"type": "Unified", "level": 2, "size": 1048576, "num_sharing": 1},
            {"type": "Unified", "level": 3, "size": 33554432, "num_sharing": 8},
        ],
        "load_avg": [0.17, 0.31, 0.17],
        "library_build_type": "release",
        "library_version": "1.9.0",
        "libraries": {"google_benchmark": "1.9.0", "hwloc": "2.9.0", "jansson": "2.14"},
        "attnscope_version": "0.1.0",
        "compiler": "gcc 12.2.0",
        "flags": "-O2",
        "build_type": "release",
        "fingerprint": f"{zlib.crc32(host.encode()):016x}",
        "cpu_brand": f"Example Processor of {host}",
        "conditions": conditions(),
        **conditions(),
        **_session(date),
        "sessions": [{"number": 1, "rows": 1, "interrupted": False, "min_time_s": 0.25, **_session(date)}],
        "left_out": [],
        "checksums_differ": [],
        "rows_disturbed": 0,
        "incomplete": False,
    } | changes
    return {key: value for key, value in made.items() if value is not None}


def row(
    pattern: str,
    algorithm: str,
    isa: str,
    n: int,
    samples: Sequence[float],
    *,
    stage: str | None = None,
    extras: str = "",
    threads: int = 1,
    **changes: Any,
) -> dict[str, Any]:
    """One row; `changes` replace fields, a value of None takes one away."""
    row_id = f"attention/{pattern}/{algorithm}/{isa}/f32/b1/h1/kv1/d64/nq{n}/nk{n}/t{threads}{extras}"
    if stage:
        row_id += f"/stage:{stage}"
    ordered = sorted(samples)
    median = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    flops = 2 * 128 * pairs(pattern, n)
    peak_gflops = PEAK_GFLOPS.get(isa, 10.0)
    moved = 4 * 4 * 64 * n
    made = {
        "name": row_id,
        "family_index": 0,
        "per_family_instance_index": 0,
        "run_name": row_id,
        "run_type": "iteration",
        "repetitions": 1,
        "repetition_index": 0,
        "threads": threads,
        "iterations": 100,
        "real_time": median,
        "cpu_time": median,
        "time_unit": "ns",
        "id": row_id,
        "isa": isa,
        "algorithm": algorithm,
        "pattern": pattern,
        "data": "normal",
        "dtype": "f32",
        "batch": 1,
        "heads": 1,
        "kv_heads": 1,
        "queries": n,
        "keys": n,
        "head_dim": 64,
        "value_dim": 64,
        "threads_used": threads,
        "pairs_useful": pairs(pattern, n),
        "pairs_executed": pairs(pattern, n),
        "pairs_dense": n * n,
        "flops_useful": flops,
        "samples_ns": list(samples),
        "sample_count": len(samples),
        "min_ns": ordered[0],
        "max_ns": ordered[-1],
        # Times are made up; no machine does more than its peak.
        "pct_peak": min(100.0, 100 * flops / median / peak_gflops),
        "effective_ghz": 4.1,
        "bytes_compulsory": moved,
        "pct_bandwidth": 100 * moved / median / 80,
        "bandwidth_level": "l3",
        "workspace_bytes": 4 * n * n if algorithm == "naive" else 65536 + 512 * n,
        "resident_peak_bytes": 2**23 + moved,
        "resident_row_bytes": 2**18 + moved,
        "session": 1,
        "date": "2026-11-30T07:59:00+00:00",
        "visits": 1,
        "cpu_share": 1,
    }
    made |= changes
    return {key: value for key, value in made.items() if value is not None}


def noisy(rng: random.Random, time: float, count: int = 11, sigma: float = 0.015) -> list[float]:
    """Samples around `time`, with the longer tail that timings have."""
    return [time * math.exp(abs(rng.gauss(0, sigma)) + rng.gauss(0, sigma / 4)) for _ in range(count)]


def power_law(c: float, exponent: float, **options: Any) -> list[dict[str, Any]]:
    """Rows of one series with t = c * n^exponent exactly."""
    return [row("dense", "flash", "avx2", n, [c * n**exponent] * 7, **options) for n in LENGTHS]


def sweep(
    speed: float = 1.0,
    isas: Sequence[str] = ("scalar", "avx2", "avx512"),
    seed: int = 1,
    lengths: Sequence[int] = LENGTHS,
) -> list[dict[str, Any]]:
    """A standard sweep: naive and flash, four patterns, stages; quadratic where dense, linear in a window."""
    rng = random.Random(seed)
    rows = []
    for isa in isas:
        per_pair = PAIR_NS[isa] / speed
        longest = 2048 if isa == "scalar" else lengths[-1]
        for n in (n for n in lengths if n <= longest):
            naive_ns = 900 / speed + 1.6 * per_pair * n * n * (1.35 if n >= 2048 else 1)
            rows.append(row("dense", "naive", isa, n, noisy(rng, naive_ns)))
            for stage, share in STAGE_SHARES.items():
                rows.append(
                    row("dense", "naive", isa, n, noisy(rng, naive_ns * share), stage=stage, pct_peak=None)
                )
            for pattern in PATTERNS:
                tile_waste = 1.0 if pattern == "dense" else 1.12 if pattern == "causal" else 1.3
                rows.append(
                    row(
                        pattern,
                        "flash",
                        isa,
                        n,
                        noisy(rng, 400 / speed + per_pair * tile_waste * pairs(pattern, n)),
                    )
                )
    return rows


def disturbed_sweep() -> list[dict[str, Any]]:
    """A sweep in which other work ran beside every row of n=512."""
    return [
        row | ({"cpu_share": 0.6} if row["keys"] == 512 else {"cpu_share": 0.97})
        for row in sweep(isas=("scalar", "avx2"))
    ]


def document(rows: Sequence[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    return {"context": context(**changes), "benchmarks": list(rows)}


def write(
    path: Any, rows: Sequence[dict[str, Any]], change: Callable[[dict], None] | None = None, **changes: Any
) -> str:
    made = document(rows, **changes)
    if change:
        change(made)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(made, file, allow_nan=True)
    return str(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out")
    parser.add_argument("--host", default="bench-host")
    parser.add_argument("--speed", type=float, default=1.0)
    arguments = parser.parse_args()
    write(arguments.out, sweep(arguments.speed), host=arguments.host)
