"""What `show` draws."""

import re

import numpy as np
import pytest
from attention_oracle import attended


def grid(outcome) -> np.ndarray:
    """The drawn pairs as a boolean array."""
    rows = [line.split()[1] for line in outcome.out.split("pairs: a row")[1].splitlines()[3:]]
    return np.array([[c == "#" for c in row] for row in rows])


def tile_rows(outcome) -> list[str]:
    lines = outcome.out.split("tiles: a row")[1].splitlines()[1:]
    return [line.split()[1] for line in lines if not line.startswith("scaled")]


@pytest.mark.parametrize(
    "pattern,queries,keys,useful",
    [
        ("causal", 7, 7, 28),
        ("causal,window=3", 7, 7, 18),
        ("window=2:2", 7, 7, 29),
        ("causal", 3, 7, 18),
        ("causal-top-left", 3, 7, 6),
        ("causal", 7, 3, 6),
        ("causal,window=512", 4096, 4096, 1966336),
    ],
)
def test_pair_counts(attnscope, pattern, queries, keys, useful):
    """Known counts of attended pairs, exactly."""
    outcome = attnscope("show", "--nq", queries, "--nk", keys, "--pattern", pattern)
    assert outcome.code == 0
    assert outcome.values()["pairs_useful"] == str(useful)
    assert outcome.values()["pairs_dense"] == str(queries * keys)


@pytest.mark.parametrize("pattern", ["dense", "causal", "causal,window=4,sink=2", "window=2:3", "stride=4"])
@pytest.mark.parametrize("queries,keys", [(16, 16), (5, 40), (40, 5)])
def test_drawn_pairs(attnscope, pattern, queries, keys):
    """The drawing is the definition's mask, and the count is the number of marks in it."""
    outcome = attnscope("show", "--nq", queries, "--nk", keys, "--pattern", pattern)
    expected = attended(pattern, queries, keys)
    np.testing.assert_array_equal(grid(outcome), expected)
    assert outcome.values()["pairs_useful"] == str(expected.sum())


def test_heads_with_their_own_maps(attnscope, tmp_path):
    """--head chooses the map that is drawn; counts are over all heads."""
    maps = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 1]]], bool)
    np.save(tmp_path / "m.npy", maps)
    arguments = ["show", "--n", "8", "--heads", "2", "--pattern", f"blocks={tmp_path / 'm.npy'}:4"]
    for head in range(2):
        outcome = attnscope(*arguments, "--head", head)
        np.testing.assert_array_equal(grid(outcome), np.kron(maps[head], np.ones((4, 4), bool)))
        assert outcome.values()["pairs_useful"] == str(5 * 16)


@pytest.mark.parametrize("pattern", ["dense", "causal", "causal,window=100", "window=64:64,global=3"])
def test_drawn_tiles(attnscope, levels, pattern):
    """Each drawn tile is full, partial or absent as the mask has it, on every level's tile sizes, and
    the counts are those of the drawing."""
    mask = attended(pattern, 500, 700)
    for level in levels:
        outcome = attnscope("show", "--nq=500", "--nk=700", "--pattern", pattern, "--tiles", "--isa", level)
        values, drawn = outcome.values(), tile_rows(outcome)
        height, width = int(values["query_tile"]), int(values["key_tile"])
        if -(-500 // height) > 48:
            continue  # scaled
        for row, line in enumerate(drawn):
            for column, mark in enumerate(line):
                tile = mask[row * height : (row + 1) * height, column * width : (column + 1) * width]
                assert mark == ("#" if tile.all() else "+" if tile.any() else ".")
        text = "".join(drawn)
        for kind, mark in (("full", "#"), ("partial", "+"), ("absent", ".")):
            assert values[f"tiles_{kind}"] == str(text.count(mark))


@pytest.mark.parametrize("algorithm", ["flash", "naive"])
@pytest.mark.parametrize(
    "pattern",
    ["dense", "causal,window=90,sink=3", "stride=200", "random=2:24:7", "chunk=100,global=5", "topk=9"],
)
def test_counts_are_those_of_an_execution(attnscope, tensors, levels, pattern, algorithm):
    """What show counts without computing is what eval counts while it computes."""
    if "topk" in pattern and algorithm == "flash":
        pytest.skip("flash does not compute topk")
    tensors.random(1, 3, 1, 300, 500, 2, 1)
    for level in levels:
        options = ["--pattern", pattern, "--algorithm", algorithm, "--isa", level]
        shown = attnscope("show", "--nq=300", "--nk=500", "--heads=3", *options).values()
        counted = attnscope(*tensors.arguments(*options, "--explain")).values()
        keys = [key for key in shown if key.startswith(("tiles_", "pairs_", "query_tile", "key_tile"))]
        assert len(keys) == 8
        assert {key: shown[key] for key in keys} == {key: counted[key] for key in keys}


def test_offset_and_length(attnscope):
    """--q-offset says where queries stand, --kv-len where keys end; both are among the values printed."""
    arguments = ["show", "--nq=5", "--nk=20", "--pattern=causal,window=4", "--q-offset=9", "--kv-len=12"]
    outcome = attnscope(*arguments)
    expected = attended("causal,window=4", 5, 20, 9) & (np.arange(20) < 12)
    np.testing.assert_array_equal(grid(outcome), expected)
    values = outcome.values()
    assert values["pairs_useful"] == str(expected.sum())
    assert values["q_offset"] == "9" and values["kv_len"] == "12"
    assert values["pairs_executed"] == "60"  # keys past the length are not computed


def test_scaled_tiles(attnscope):
    """A large drawing is scaled, says so, and stays within a terminal."""
    outcome = attnscope("show", "--n", 32768, "--pattern", "causal,window=1024")
    assert outcome.code == 0 and "scaled: each character stands for" in outcome.out
    rows = tile_rows(outcome)
    assert len(rows) <= 48 and max(map(len, rows)) <= 96
    assert rows[-1][-1] == "+" and rows[-1][0] == "." and rows[0][-1] == "."


def test_topk_is_said(attnscope):
    """topk depends on scores: what is drawn is said to be what it chooses from."""
    outcome = attnscope("show", "--n", 8, "--pattern", "causal,topk=3")
    assert outcome.code == 0 and "note: which pairs topk keeps" in outcome.out
    assert outcome.values()["pairs_useful"] == str(1 + 2 + 6 * 3)


def test_stride_is_said(attnscope):
    """stride is not gathered: that it costs whole tiles is said, with the counts; of other patterns nothing is."""
    outcome = attnscope("show", "--n", 70, "--pattern", "causal,stride=7")
    values = outcome.values()
    useful = sum(i // 7 + 1 for i in range(70))
    assert values["pairs_useful"] == str(useful) and int(values["pairs_executed"]) > 2 * useful
    assert f"{values['pairs_executed']} pairs for {useful} attended, of 4900" in values["note"]
    assert "stride" in values["note"]
    assert "note:" not in attnscope("show", "--n", 70, "--pattern", "causal,window=7").out


def test_n_in_any_order(attnscope):
    """--nq and --nk go before --n wherever they stand."""
    a = attnscope("show", "--nq", 3, "--n", 5)
    b = attnscope("show", "--n", 5, "--nq", 3)
    assert a.out == b.out and a.values()["queries"] == "3" and a.values()["keys"] == "5"


@pytest.mark.parametrize("kind", ["--pairs", "--tiles"])
@pytest.mark.parametrize("queries,keys", [(0, 0), (0, 70), (70, 0)])
def test_nothing_to_attend(attnscope, tmp_path, queries, keys, kind):
    """No queries or no keys are problems too: all counts are 0, in the picture as well, which holds only
    numbers that are finite and draws no cell."""
    picture = tmp_path / "picture.svg"
    for more in ([], ["--svg", picture]):
        outcome = attnscope(
            "show", "--nq", queries, "--nk", keys, "--pattern", "causal,window=3", kind, *more
        )
        assert (outcome.code, outcome.err) == (0, "")
        values = outcome.values()
        assert (values["queries"], values["keys"]) == (str(queries), str(keys))
        assert {v for key, v in values.items() if key.startswith(("tiles_", "pairs_"))} == {"0"}
        assert "#" not in outcome.out.split("absent\n")[-1].split("not\n")[-1]
    text = picture.read_text()
    assert not re.search(r"[\"( ,]-?(nan|inf)\b", text)
    assert '<rect class="attended"' not in text and '<rect class="full"' not in text
    assert f"{queries} queries" in text and f"{keys} keys" in text


# Pairs that a query at the end attends, of a square problem of n.
LONG = {
    "dense": lambda n: n * n,
    "causal": lambda n: n * (n + 1) // 2,
    "causal,window=512,sink=4": lambda n: 516 * (516 + 1) // 2 + (n - 516) * 516,
    "chunk=4096": lambda n: n // 4096 * 4096**2 + (n % 4096) ** 2,
    "stride=1000": lambda n: sum(2 * (n - d) for d in range(1000, n, 1000)) + n,
    "random=1000000000:1:1": lambda n: n * n,
}


@pytest.mark.parametrize("pattern", LONG)
@pytest.mark.parametrize("n", [1_200_000, 2**23])
def test_any_length(attnscope, pattern, n):
    """A problem too long to look at has its plan's counts, and it is said that nothing is drawn, and why."""
    n = 400_000 if "stride" in pattern else n  # whose tiles are found one by one
    for how in ([], ["--tiles"]):
        outcome = attnscope("show", "--n", n, "--pattern", pattern, *how)
        assert (outcome.code, outcome.err) == (0, "")
        values = outcome.values()
        assert values["pairs_useful"] == str(LONG[pattern](n)) and values["pairs_dense"] == str(n * n)
        tiles = [int(values[f"tiles_{kind}"]) for kind in ("full", "partial", "absent")]
        across, down = (-(-n // int(values[key])) for key in ("key_tile", "query_tile"))
        assert sum(tiles) == across * down
        assert f"note: nothing is drawn: {n} x {n} pairs are too many" in outcome.out
        assert "\n\n" not in outcome.out  # which comes before a drawing


def test_any_length_with_data(attnscope, tmp_path):
    """What a plan does not know of is named where its counts are printed; one key is not too many."""
    np.save(tmp_path / "mask.npy", np.zeros((1, 400_000), bool))
    for more in (["--kv-len", 5], ["--q-offset", -9], ["--mask", tmp_path / "mask.npy"]):
        outcome = attnscope("show", "--nq", 4_000_000, "--nk", 400_000, *more)
        assert outcome.code == 0 and "of the pattern alone" in outcome.out
    assert attnscope("show", "--nq", 2**27, "--nk", 1).code == 0


@pytest.mark.parametrize(
    "size",
    [
        ["--n", 33554432],
        ["--n", 23726566, "--heads", 2],
        ["--nq", 1024, "--nk", 2**40],
        ["--nq", 0, "--nk", 2**30, "--heads", 2**20],
    ],
)
def test_largest_problems(attnscope, size):
    """Guards that what the error of a larger one names as accepted is: the library's limit is no smaller."""
    outcome = attnscope("show", *size, "--pattern", "window=4")
    assert outcome.code == 0 and outcome.values()["pairs_useful"].isdigit(), outcome


@pytest.mark.parametrize(
    "pattern,queries,keys",
    [
        ("window=4", 1_000_000, 1_000_000),
        ("window=1", 33554432, 33554432),
        ("causal", 1, 33554432),
        ("causal-top-left", 1, 3000),
        ("window=inf:2996,sink=1", 1, 3000),
        ("causal", 7, 7),
        ("dense", 5, 5),
        ("dense", 0, 5),
    ],
)
def test_percentages_tell_little_from_nothing(attnscope, pattern, queries, keys):
    """Guards that a share of pairs reads as none or as all only where it is, and has two digits that count."""
    outcome = attnscope("show", "--nq", queries, "--nk", keys, "--pattern", pattern)
    assert outcome.code == 0, outcome
    values = outcome.values()
    for which in ("useful", "executed"):
        part, whole = int(values[f"pairs_{which}"]), queries * keys
        text = values[f"percent_{which}"]
        exact = 100 * part / whole if whole else 0
        assert (float(text) == 0) == (part == 0) and (float(text) == 100) == (part == whole > 0)
        assert re.fullmatch(r"\d+\.\d+", text)
        assert abs(float(text) - exact) <= 0.05 * min(exact, 100 - exact) + 1e-12


@pytest.mark.parametrize(
    "arguments,texts",
    [
        (["--n", "-5"], ["'-5'"]),
        (["--nk", "1e3"], ["'1e3'"]),
        (["--n", "1000", "--pairs"], ["1000", "256", "--tiles"]),
        (["--n", "4000000", "--svg", "/tmp/x.svg"], ["4000000", "tiles", "x.svg"]),
        (["--n", "99999999999"], ["99999999999", "--n 33554432"]),
        (["--n", "33554433"], ["33554433 x 33554433 pairs", "2^50", "--n 33554432"]),
        (["--n", "33554432", "--heads", "2"], ["of each head", "2^50", "--n 23726566"]),
        (["--nq", "1025", "--nk", str(2**40)], [f"1025 x {2**40} pairs", "2^50"]),
        (["--nq", "0", "--nk", str(2**40), "--heads", "1025"], [f"0 x {2**40} pairs", "2^50"]),
        (["--n", str(2**40 + 1)], [str(2**40 + 1)]),
        (["--pattern", "window=0"], ["window=0"]),
        (["--pattern", "blocks=missing.npy:4"], ["missing.npy"]),
        (["--isa", "mmx"], ["mmx"]),
        (["--algorithm", "slow"], ["slow"]),
        (["--heads", "2", "--head", "2"], ["--head", "2"]),
        (["--algorithm", "flash", "--pattern", "topk=2"], ["topk"]),
        (["--kv-len", "17"], ["17", "16"]),
        (["--kv-len", "-1"], ["'-1'"]),
        (["--q-offset", "1.5"], ["'1.5'"]),
        (["--q-offset", str(2**61)], [str(2**61)]),
        (["--mask", "missing.npy"], ["missing.npy"]),
        (["--kv-lens", "x.npy"], ["--kv-lens"]),
    ],
)
def test_refused(refused, arguments, texts):
    """Bad values and drawings that would not fit, in one line."""
    refused(["show", *arguments], *texts)
