"""Numbers as people read them."""

from __future__ import annotations

from .results import Row


def duration(ns: float, digits: int = 3) -> str:
    """A time in the unit in which it is easiest to read."""
    if ns == 0:
        return "0"
    if ns < 0:
        return f"-{duration(-ns, digits)}"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)):
        if ns >= size:
            return f"{significant(ns / size, digits)} {unit}"
    return f"{significant(ns * 1e3, digits)} ps"


def significant(value: float, digits: int = 3) -> str:
    """A number with so many significant digits, never in exponent form."""
    if value == 0:
        return "0"
    text = f"{value:.{digits}g}"
    if "e" in text:
        text = f"{float(text):.0f}" if abs(value) >= 1 else f"{float(text):.12f}".rstrip("0")
    return text


def size(n_bytes: float) -> str:
    """Bytes with a binary unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n_bytes < 1024 or unit == "GiB":
            return f"{significant(n_bytes, 4)} {unit}"
        n_bytes /= 1024
    raise AssertionError("unreachable")


def cpu_share(row: Row) -> str:
    """A table's cell: how much of its CPU a row had."""
    if row.cpu_share is None:
        return ""
    return f"{100 * row.cpu_share:.0f} %" + (", disturbed" if row.disturbed else "")


def bandwidth(row: Row) -> str:
    """A table's cell: percent of the bandwidth of the memory that holds a row's working set."""
    if row.pct_bandwidth is None:
        return ""
    return f"{row.pct_bandwidth:.1f}" + (", doubted" if row.bandwidth_doubted else "")
