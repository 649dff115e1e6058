"""The limits of `info --roofline`: measured once, kept by fingerprint with the date, measured again on request."""

import json
import re

import pytest

MEASURED = "measured now, kept in "


def tables(text: str) -> str:
    """The figures alone: from the first table on, without the last line, which says where they come from."""
    return text[text.index("\nroofline, ") :].rsplit("\nmeasured ", 1)[0]


@pytest.fixture(scope="module")
def kept(attnscope, tmp_path_factory):
    """A cache directory with this machine's limits, its file, and what the measuring run printed."""
    place = tmp_path_factory.mktemp("cache") / "not there yet"
    outcome = attnscope("info", "--roofline", env={"XDG_CACHE_HOME": str(place)})
    assert (outcome.code, outcome.err) == (0, "") and MEASURED in outcome.out
    (file,) = (place / "attnscope").iterdir()
    return place, file, outcome.out


def test_kept_figures_are_shown_with_their_date(attnscope, kept):
    """The second run shows the same figures and when they were measured; JSON says so too."""
    place, file, first = kept
    env = {"XDG_CACHE_HOME": str(place)}
    date = json.loads(file.read_text())["date"]
    before = file.stat().st_mtime_ns
    outcome = attnscope("info", "--roofline", env=env)
    assert tables(outcome.out) == tables(first)
    assert outcome.out.rstrip().endswith(f"measured {date}, kept in {file}; --measure measures again")
    described = json.loads(attnscope("info", "--roofline", "--json", env=env).out)
    assert described["roofline_cached"] is True and described["roofline_measured_at"] == date
    assert described["fingerprint"] in file.name and file.stat().st_mtime_ns == before


def test_drawing(kept):
    """Every level of memory that was measured has its rising line, every ISA level its name at its peak."""
    _, _, text = kept
    drawing = text[text.index("GFLOP/s, 1 thread") :]
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


def test_what_is_kept_is_not_believed_blindly(attnscope, kept):
    """A damaged file, one of another machine or of another version, and a figure that is none, are measured
    again and replaced; --measure does so with a sound one."""
    place, file, _ = kept
    env = {"XDG_CACHE_HOME": str(place)}
    sound = json.loads(file.read_text())
    worse = [
        "{",
        json.dumps(sound | {"fingerprint": "0123456789abcdef"}),
        json.dumps(sound | {"roofline": [sound["roofline"][0] | {"peaks": [{"isa": "avx9"}]}]}),
    ]
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


def test_no_place_to_keep_them(attnscope, tmp_path):
    """Where nothing can be kept the figures are shown all the same, and a line says why."""
    (tmp_path / "file").write_text("")
    outcome = attnscope("info", "--roofline", env={"XDG_CACHE_HOME": str(tmp_path / "file" / "below")})
    assert outcome.code == 0 and outcome.out.rstrip().endswith("measured now, not kept")
    assert "cannot make the directory" in outcome.err and outcome.err.count("\n") == 1
