"""The picture that `show --svg` writes."""

import re
import subprocess
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from attention_oracle import attended
from conftest import program

SVG = "{http://www.w3.org/2000/svg}"


class Picture:
    """What an SVG file of `show` says: areas of its rectangles by kind, legend, all of its text."""

    def __init__(self, path):
        self.root = ET.parse(path).getroot()
        assert self.root.tag == f"{SVG}svg"
        cells = next(g for g in self.root.iter(f"{SVG}g") if g.get("id") == "cells")
        self.rects = [
            (r.get("class"), *(int(r.get(key)) for key in ("x", "y", "width", "height"))) for r in cells
        ]
        self.texts = ["".join(t.itertext()) for t in self.root.iter(f"{SVG}text")]
        entries = (re.match(r"(\w+): ([\d,]+) (?:pairs|tiles) \(([\d.]+) %\), ", t) for t in self.texts)
        self.legend = {m[1]: int(m[2].replace(",", "")) for m in entries if m}

    def grid(self, rows, columns) -> np.ndarray:
        """The kind drawn on each cell, "" for the background; no cell is drawn twice."""
        grid = np.full((rows, columns), "", "U8")
        for kind, x, y, width, height in self.rects:
            assert (grid[y : y + height, x : x + width] == "").all() and width > 0 and height > 0
            grid[y : y + height, x : x + width] = kind
        assert sum(w * h for _, _, _, w, h in self.rects) == (grid != "").sum()  # none reaches outside
        return grid


@pytest.fixture
def picture(attnscope, tmp_path):
    """Runs show --svg with these arguments; returns the Picture and the values of standard output."""

    def draw(*arguments):
        path = tmp_path / "picture.svg"
        outcome = attnscope("show", *arguments, "--svg", path)
        assert (outcome.code, outcome.err) == (0, "")
        assert "\n\n" not in outcome.out  # counts alone, no drawing
        return Picture(path), outcome.values()

    return draw


@pytest.mark.parametrize("pattern", ["dense", "causal", "causal,window=4,sink=2", "stride=4", "random=1:8:5"])
@pytest.mark.parametrize("queries,keys", [(16, 16), (5, 40), (64, 3), (1, 1)])
def test_pairs(picture, pattern, queries, keys):
    """Attended pairs are drawn where the definition has them, the rest of visited tiles is drawn as
    masked, and the legend counts what is drawn."""
    drawn, values = picture("--nq", queries, "--nk", keys, "--pattern", pattern)
    grid = drawn.grid(queries, keys)
    np.testing.assert_array_equal(grid == "attended", attended(pattern, queries, keys))
    counts = {kind: int((grid == kind).sum()) for kind in ("attended", "masked")}
    counts["skipped"] = queries * keys - sum(counts.values())
    assert drawn.legend == counts
    assert counts["attended"] == int(values["pairs_useful"])
    assert counts["attended"] + counts["masked"] == int(values["pairs_executed"])


@pytest.mark.parametrize(
    "pattern", ["dense", "causal", "causal,window=100", "window=64:64,random=2:48:9,global=3"]
)
@pytest.mark.parametrize("algorithm", ["flash", "naive"])
def test_tiles(picture, levels, pattern, algorithm):
    """Areas of the rectangles are the plan's tile counts, and every tile of flash is drawn as the mask
    has it, on every level's tiles."""
    mask = attended(pattern, 500, 700)
    for level in levels:
        options = ["--nq=500", "--nk=700", "--pattern", pattern, "--isa", level, "--algorithm", algorithm]
        drawn, values = picture(*options)
        height, width = int(values["query_tile"]), int(values["key_tile"])
        grid = drawn.grid(-(-500 // height), -(-700 // width))
        for kind in ("full", "partial", "absent"):
            assert drawn.legend[kind] == int(values[f"tiles_{kind}"])
            assert (grid == (kind if kind != "absent" else "")).sum() == drawn.legend[kind]
        for row, column in np.ndindex(*grid.shape) if algorithm == "flash" else ():
            tile = mask[row * height : (row + 1) * height, column * width : (column + 1) * width]
            assert grid[row, column] == ("full" if tile.all() else "partial" if tile.any() else "")


def test_what_comes_with_the_tensors(attnscope, picture, tmp_path):
    """Offset, length, segments, mask and bias decide pairs in the picture as they do in eval's mask, and
    are named in it; the head drawn is the one asked for."""
    rng = np.random.default_rng(1)
    q, k, v = rng.random((4, 90, 2)), rng.random((4, 120, 2)), rng.random((4, 120, 2))
    extra = {
        "mask": rng.random((4, 1, 120)) < 0.8,
        "bias": np.where(rng.random((90, 1)) < 0.1, -np.inf, 0.0),
        "segments": np.sort(rng.integers(0, 3, 120)),
        "kv-lens": np.array([101]),
        "q-offsets": np.array([-7]),
    }
    for name, array in ({"q": q, "k": k, "v": v, "out": 0, "effective": 0} | extra).items():
        np.save(tmp_path / f"{name}.npy", array)
    files = {name: tmp_path / f"{name}.npy" for name in ("q", "k", "v", "out", *extra)}
    options = [f"--{name}={path}" for name, path in files.items()]
    pattern = ["--pattern=causal,window=40", "--algorithm=flash"]
    outcome = attnscope("eval", *options, *pattern, f"--mask-out={tmp_path / 'effective.npy'}", "--explain")
    assert outcome.code == 0, outcome.err
    mask = np.load(tmp_path / "effective.npy")[0]
    options = ["--nq=90", "--nk=120", "--kv-len=101", "--q-offset=-7", "--heads=4", "--pairs"]
    options += [f"--{name}={files[name]}" for name in ("mask", "bias", "segments")]
    total = 0
    for head in range(4):
        drawn, values = picture(*options, *pattern, "--head", head)
        grid = drawn.grid(90, 120)
        np.testing.assert_array_equal(grid == "attended", mask[head])
        total += (grid != "").sum()
        counts = [key for key in values if key.startswith(("tiles_", "pairs_"))]
        assert len(counts) == 6 and all(values[key] == outcome.values()[key] for key in counts)
        text = "\n".join(drawn.texts)
        for part in (f"head {head} of 4", "position -7", "101 keys"):
            assert part in text
        assert all(f"{name}: " in text for name in ("mask", "bias", "segments"))
    assert total == int(values["pairs_executed"])


def test_scaled(picture, tmp_path):
    """A large problem is scaled and says so; the file stays small, since equal neighbours are joined."""
    drawn, values = picture("--n", 131072, "--pattern", "causal,window=4096,sink=4")
    assert drawn.legend["full"] == int(values["tiles_full"])
    assert any(text.startswith("scaled: a cell is ") for text in drawn.texts)
    assert any("17,179,869,184 dense" in text for text in drawn.texts)
    assert max(x + w for _, x, _, w, _ in drawn.rects) <= 320
    assert (tmp_path / "picture.svg").stat().st_size < 100_000
    dense, _ = picture("--n", 100000)
    assert len(dense.rects) == 1


def test_topk(picture):
    """With topk the candidates are drawn, and how many of them are kept is said."""
    drawn, values = picture("--n", 8, "--pattern", "causal,topk=3")
    assert drawn.legend["attended"] == 36
    assert values["pairs_useful"] == "21" and any("topk keeps 21 of" in text for text in drawn.texts)


def test_self_contained(picture, tmp_path):
    """Nothing is fetched from elsewhere, and no script runs."""
    picture("--n", 300, "--pattern", "causal")
    text = (tmp_path / "picture.svg").read_text()
    assert text.replace("http://www.w3.org/2000/svg", "").count("http") == 0
    assert not re.search(r"href|url\((?!#plot)|<script|<image|@import", text)


@pytest.mark.parametrize(
    "name", ["a&b<c>\"d'.npy", "é中😀.npy", "tab\there.npy", b"bad\xff\xc3\xed\xa0\x80.npy", "x" * 200]
)
def test_any_file_name(attnscope, tmp_path, name):
    """A name of any bytes in the title still gives well-formed XML; a long one is cut."""
    name = name.encode() if isinstance(name, str) else name
    path = bytes(tmp_path) + b"/" + name
    with open(path, "wb") as file:
        np.save(file, np.ones((2, 2), bool))
    pattern = b"blocks=" + name + b":8"
    svg = tmp_path / "picture.svg"
    command = [program().encode(), b"show", b"--pattern", pattern, b"--svg", bytes(svg)]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    drawn = Picture(svg)
    assert (
        drawn.texts[0].startswith("blocks=") and drawn.texts[0].endswith(":8") and len(drawn.texts[0]) < 100
    )
    if b"&" in name:
        assert drawn.texts[0] == pattern.decode()


@pytest.mark.parametrize("place", ["nowhere/x.svg", ".", "/dev/full", "/dev/null", ""])
def test_places_that_cannot_be_written(refused, tmp_path, place):
    """Refused by name, nothing is left behind."""
    path = place if place.startswith("/dev/") or not place else f"{tmp_path}/{place}"
    refused(["show", f"--svg={path}"], path)
    assert list(tmp_path.iterdir()) == []


def test_refused(refused, tmp_path):
    """An input is not replaced, and a picture is of pairs or of tiles."""
    np.save(tmp_path / "mask.npy", np.ones((16, 16), bool))
    before = (tmp_path / "mask.npy").read_bytes()
    mask = tmp_path / "mask.npy"
    refused(["show", f"--mask={mask}", f"--svg={mask}"], "input")
    refused(["show", f"--pattern=blocks={mask}:1", f"--svg={mask}"], "input")
    refused(["show", "--pairs", "--tiles", f"--svg={tmp_path / 'x.svg'}"], "--svg")
    assert mask.read_bytes() == before and list(tmp_path.iterdir()) == [mask]


def test_full_standard_output(attnscope, tmp_path):
    """Where the counts cannot be printed, the picture is not written."""
    with open("/dev/full", "w") as full:
        outcome = attnscope("show", "--svg", tmp_path / "x.svg", capture_output=False, stdout=full)
    assert outcome.code == 2 and list(tmp_path.iterdir()) == []
