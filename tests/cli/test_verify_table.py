"""The self-test: passes here, covers every level, and can fail."""

import re

import pytest


def rows(out: str) -> dict[tuple[str, str], list[str]]:
    """(check, algorithm) -> the cells after them."""
    table = out.split("worst at\n", 1)[1].split("\n\n", 1)[0]
    cells = [re.split(r" {2,}", line.strip()) for line in table.splitlines()]
    return {(cell[0], cell[1]): cell[2:] for cell in cells}


@pytest.fixture(scope="module")
def quick(attnscope):
    return attnscope("verify", "--quick", timeout=600)


def test_passes(quick, levels):
    """Every level of this machine passes, and every kernel and both algorithms are in the table."""
    assert quick.code == 0, quick.out
    assert f"levels: {' '.join(levels)}\n" in quick.out
    table = rows(quick.out)
    kernels = {"matmul A B^T", "matmul A B", "scale", "mask", "softmax", "exp", "convert f16", "convert bf16"}
    assert kernels <= {check for check, algorithm in table if algorithm == "-"}
    attention = {check for check, algorithm in table if algorithm == "flash"}
    assert {"dense", "causal", "window", "lengths", "head dimensions", "threads"} <= attention
    assert attention == {check for check, algorithm in table if algorithm == "naive"}
    verdict = 1 + len(levels)
    for (check, algorithm), cells in table.items():
        assert cells[verdict] in ("ok", "refused"), check
        assert cells[verdict] == "ok" or (check, algorithm) == ("topk", "flash")
    summary = re.search(r"(\d+) ok, (\d+) failed, (\d+) refused", quick.out)
    assert [int(n) for n in summary.groups()] == [len(table) - 1, 0, 1]


def test_errors_are_measured(quick, levels):
    """No column of numbers is empty or zero throughout: every level really ran."""
    table = rows(quick.out)
    for column in range(1, 1 + len(levels)):
        used = [float(cells[column]) for (check, _), cells in table.items() if check == "causal"]
        assert len(used) == 2 and all(0 < u < 1 for u in used)


def test_worst_cases_name_their_pattern(quick):
    """A case can be tried again from its line: the block map's size stands in it, as attn_pattern_format writes it."""
    worst = [cells[-1] for (check, _), cells in rows(quick.out).items() if check == "blocks"]
    assert len(worst) == 2
    for case in worst:
        assert re.search(r"(?<!,)blocks=map:16 b\d|causal,window=3,blocks=map:33 b\d", case), case


def test_injected_errors_fail(attnscope, quick):
    """With one element of every result spoiled every check fails, and the exit code is 1."""
    outcome = attnscope("verify", "--quick", "--inject-error", timeout=600)
    assert outcome.code == 1
    summary = re.search(r"(\d+) ok, (\d+) failed, (\d+) refused", outcome.out)
    assert [int(n) for n in summary.groups()] == [0, len(rows(quick.out)) - 1, 1]
    assert outcome.out.count("FAILED: ") == 20 and "more" in outcome.out


def test_one_level(attnscope, levels):
    """--isa restricts the run to the levels named."""
    outcome = attnscope("verify", "--quick", "--isa", f"{levels[0]},{levels[0]}", timeout=600)
    assert outcome.code == 0 and f"levels: {levels[0]}\n" in outcome.out


def test_seed(attnscope, levels, quick):
    """The seed is printed and changes the data; the same seed gives the same numbers."""
    arguments = ["verify", "--quick", "--isa", levels[0], "--seed"]
    first, again, other = (attnscope(*arguments, seed, timeout=600) for seed in (7, 7, 8))
    assert "seed: 7\n" in first.out and first.code == other.code == 0
    assert rows(first.out) == rows(again.out) != rows(other.out)


@pytest.mark.parametrize("value", ["sse9", "scalar,sse9", "", "scalar,"])
def test_levels_refused(refused, value):
    """An unknown level is refused by name."""
    refused(["verify", "--isa", value], f"'{value.split(',')[-1]}'")


@pytest.mark.parametrize("value", ["x", "-1", "1.5", ""])
def test_seeds_refused(refused, value):
    """A seed is a whole number."""
    refused(["verify", "--seed", value], f"'{value}'")


def test_skipped_levels_are_named(attnscope, quick):
    """Levels of this build that cannot run are named with the reason (nothing to see where all can), but not
    as skipped where others were asked for."""
    import json

    listed = json.loads(attnscope("info", "--json").out)["isa"]["levels"]
    absent = [level for level in listed if not level["available"]]
    if not absent:
        pytest.skip("this machine can run every level of the build")
    outcome = attnscope("verify", "--quick", "--isa", "scalar", timeout=600)
    assert "skipped" not in outcome.out
    for level in absent:
        assert f"skipped: {level['name']}: " in quick.out
