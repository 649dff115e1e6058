"""The limits of `info --roofline`: measured once, kept by fingerprint with the date, measured again on request."""

import json
import re
import shutil
import subprocess

import pytest

MEASURED = "measured now, kept in "
# Threads seem to get a share of their CPU: whether a machine is busy must not decide what is tested.
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t which, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    if (which != CLOCK_THREAD_CPUTIME_ID)
        return real(which, now);
    const int code = real(CLOCK_MONOTONIC, now);
    const long long ns = (now->tv_sec * 1000000000LL + now->tv_nsec) * PERCENT / 100;
    now->tv_sec = ns / 1000000000;
    now->tv_nsec = ns % 1000000000;
    return code;
}
"""


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """The environment of a program for which other work takes nothing ("quiet": more CPU time than any delay), or
    at least half of each CPU ("busy")."""
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("needs a C compiler")
    place = tmp_path_factory.mktemp("clock")
    (place / "clock.c").write_text(CLOCK)
    found = {}
    for name, percent in (("quiet", 100000), ("busy", 50)):
        library = place / f"{name}.so"
        define = f"-DPERCENT={percent}"
        command = [compiler, "-shared", "-fPIC", define, "-o", library, place / "clock.c", "-ldl"]
        subprocess.run(command, check=True)
        found[name] = {"LD_PRELOAD": str(library)}
    return found


def tables(text: str) -> str:
    """The figures alone: from the first table on, without the last line, which says where they come from."""
    return text[text.index("\nroofline, ") :].rsplit("\nmeasured ", 1)[0]


@pytest.fixture(scope="module")
def kept(attnscope, machines, tmp_path_factory):
    """A cache directory with this machine's limits, its file, and what the measuring run printed."""
    place = tmp_path_factory.mktemp("cache") / "not there yet"
    outcome = attnscope("info", "--roofline", env={"XDG_CACHE_HOME": str(place)} | machines["quiet"])
    assert (outcome.code, outcome.err) == (0, "") and MEASURED in outcome.out
    (file,) = (place / "attnscope").iterdir()
    return place, file, outcome.out


def test_kept_figures_are_shown_with_their_date(attnscope, kept):
    """The second run shows the same figures and when they were measured; JSON says so too."""
    place, file, first = kept
    env = {"XDG_CACHE_HOME": str(place)}
    date = json.loads(file.read_text())["date"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", date)
    before = file.stat().st_mtime_ns
    outcome = attnscope("info", "--roofline", env=env)
    assert tables(outcome.out) == tables(first)
    assert outcome.out.rstrip().endswith(f"measured {date}, kept in {file}; --measure measures again")
    described = json.loads(attnscope("info", "--roofline", "--json", env=env).out)
    assert described["roofline_cached"] is True and described["roofline_measured_at"] == date
    assert described["fingerprint"] in file.name and file.stat().st_mtime_ns == before


def test_drawing(attnscope, kept, tmp_path):
    """Every level of memory that was measured has its rising line, every ISA level its name at its peak."""
    _, file, _ = kept
    known = json.loads(file.read_text())
    for name, gbs in zip(("l1d", "l2", "l3", "memory"), (200, 100, 50, 10), strict=True):
        if level := known["roofline"][0]["level"].get(name):
            level["read_gbs"] = gbs  # measured ones may lie too close for a line each
    (tmp_path / "attnscope").mkdir()
    (tmp_path / "attnscope" / file.name).write_text(json.dumps(known))
    text = attnscope("info", "--roofline", env={"XDG_CACHE_HOME": str(tmp_path)}).out
    assert "; --measure measures again" in text
    drawings = re.split(r"^  GFLOP/s, \d+ threads?: ", text, flags=re.MULTILINE)[1:]
    assert len(drawings) == len(known["roofline"])  # of each number of threads, the first of one
    assert "disturbed" not in text
    drawing = drawings[0]
    assert all(drawing.count("|") > 4 for drawing in drawings)
    rows = re.findall(r"^ +([\d.e+]+) \|(.{57})(.*)$", drawing, re.MULTILINE)
    assert len(rows) > 4 and [float(row[0]) for row in rows] == sorted(
        (float(row[0]) for row in rows), reverse=True
    )
    cells, labels = "".join(row[1] for row in rows), ", ".join(row[2] for row in rows)
    table = tables(text).split("\nroofline, ")[1]
    for mark, level in zip("123m", ("L1d", "L2", "L3", "memory"), strict=True):
        found = re.search(rf"^  {level} +([\d.]+) ", table, re.MULTILINE)
        assert (mark in cells) == bool(found), level
        columns = [row[1].index(mark) for row in rows if mark in row[1]]
        assert columns == sorted(columns, reverse=True)  # it rises to the right
    for level, peak in re.findall(r"^  (scalar|avx2|avx512|neon) +([\d.]+)", table, re.MULTILINE):
        (row,) = (row for row in rows if re.search(rf"\b{level}\b", row[2]))
        assert 2**-0.26 < float(row[0]) / float(peak) < 2**0.26  # rows are half octaves
        assert level in labels


def test_what_is_kept_is_not_believed_blindly(attnscope, machines, kept):
    """A damaged file, one of another machine or of another version, a figure that is none, and one that was
    disturbed, are measured again and replaced; --measure does so with a sound one."""
    place, file, _ = kept
    env = {"XDG_CACHE_HOME": str(place)} | machines["quiet"]
    sound = json.loads(file.read_text())
    worse = [
        "{",
        json.dumps(sound | {"fingerprint": "0123456789abcdef"}),
        json.dumps(sound | {"roofline": [sound["roofline"][0] | {"isa": {"avx9": {}}}]}),
        json.dumps(sound | {"schema": 2, "date": "2026-11-30T15:45:32+0000"}),
        file.read_text().replace('"exp_cpu_share": 1', '"exp_cpu_share": 0.9', 1),
    ]
    first, *others = sound["roofline"]
    (name, figure), *rest = first["level"].items()
    for missing in (
        {"isa": dict(list(first["isa"].items())[1:])},
        {"readings": first["readings"][1:]},
        {"level": dict(rest)},
        {"level": first["level"] | {name: {k: v for k, v in figure.items() if k != "copy_gbs"}}},
        {"level": first["level"] | {name: figure | {"copy_gbs": None}}},
    ):
        worse.append(json.dumps(sound | {"roofline": [first | missing, *others]}))
    assert len({file.read_text(), *worse}) == len(worse) + 1
    for text in worse:
        file.write_text(text)
        outcome = attnscope("info", "--roofline", env=env)
        assert outcome.code == 0 and MEASURED in outcome.out, text
        again = json.loads(file.read_text())
        assert again["fingerprint"] == sound["fingerprint"] and len(again["roofline"]) == len(
            sound["roofline"]
        )
    before = file.stat().st_mtime_ns
    outcome = attnscope("info", "--measure", env=env)
    assert outcome.code == 0 and MEASURED in outcome.out and file.stat().st_mtime_ns != before


def test_no_place_to_keep_them(attnscope, machines, tmp_path):
    """Where nothing can be kept the figures are shown all the same, and a line says why."""
    (tmp_path / "file").write_text("")
    env = {"XDG_CACHE_HOME": str(tmp_path / "file" / "below")} | machines["quiet"]
    outcome = attnscope("info", "--roofline", env=env)
    assert outcome.code == 0 and outcome.out.rstrip().endswith("measured now, not kept")
    assert "cannot make the directory" in outcome.err and outcome.err.count("\n") == 1


def shares_of(rooflines: list[dict]) -> list[float]:
    entries = [entry for one in rooflines for entry in (*one["isa"].values(), *one["level"].values())]
    return [v for entry in entries for key, v in entry.items() if key.endswith("_cpu_share")]


def test_disturbed_figures_are_named_and_not_kept(attnscope, machines, kept, tmp_path):
    """Where threads got no more than half of their CPUs every figure is marked, in text and in JSON, and nothing
    is kept; where they got all, none is."""
    _, file, text = kept
    quiet = json.loads(file.read_text())["roofline"]
    assert "disturbed" not in tables(text) and not any(roofline["disturbed"] for roofline in quiet)
    assert set(shares_of(quiet)) == {1}

    env = {"XDG_CACHE_HOME": str(tmp_path / "cache")} | machines["busy"]
    text = attnscope("info", "--roofline", env=env).out
    lines = re.findall(r"^  (?:scalar|avx2|avx512|neon|L1d|L2|L3|memory) +[\d.]+ .*$", text, re.MULTILINE)
    assert 2 * len(lines) == len(shares_of(quiet))
    assert all(re.search(r"disturbed: (FMA, exp|read, copy)$", line) for line in lines)
    assert text.endswith("measured now, not kept\n") and "--roofline measures again" in text
    assert text.count("drawn with the figures that are marked as disturbed") == len(quiet)
    busy = json.loads(attnscope("info", "--measure", "--json", env=env).out)["roofline"]
    assert all(roofline["disturbed"] for roofline in busy)
    assert all(0 < share < 0.7 for share in shares_of(busy)) and not list(tmp_path.iterdir())
