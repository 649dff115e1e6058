"""What is not decided: an interval of rows that other work disturbed says nothing, one of the others still does."""

import json
import math
import re

import pytest
import synthetic
from attnscope_py import analysis, analysis_tables, comparisons, crossover, lines, record, text_table, tuning
from attnscope_py import statistics as st
from attnscope_py.crossover import NOT_DECIDED
from attnscope_py.reading import load_run
from hypothesis import example, given, settings
from hypothesis import strategies as hs
from words import leading

PLANTED = 700  # where naive and flash take the same


def rows_of(disturbed=(), isas=("scalar", "avx2")):
    """naive is faster below PLANTED, flash above; rows of the disturbed lengths took twice their time."""
    made = []
    for isa in isas:
        for n in synthetic.LENGTHS:
            slow = n in disturbed
            pair = synthetic.PAIR_NS[isa] * (2 if slow else 1)
            for pattern, algorithm, time in (
                ("dense", "naive", pair * n**2),
                ("dense", "flash", pair * n**1.8 * PLANTED**0.2),
                ("window=256", "flash", pair * n**1.1 * PLANTED**0.7),
            ):
                samples = [time * (1 + 0.0005 * i) for i in range(7)]
                made.append(synthetic.row(pattern, algorithm, isa, n, samples, cpu_share=0.6 if slow else 1))
    return made


def sections_of(tmp_path, rows):
    run = load_run(synthetic.write(tmp_path / "r.json", rows))
    return run, analysis.sections([run])


# Guards every mix of disturbed rows, down to one clean length in common and none: the object, its tables and the words
# are all made, at the lengths that are clean, each with its ratio; and no two that differ decide with fewer than two.
@settings(deadline=None, max_examples=60)
@given(hs.lists(hs.sampled_from([0, 1, 2, 3]), min_size=8, max_size=8))
@example([1, 0, 2, 1, 3, 3, 3, 3])
def test_any_mix_of_disturbed_rows(tmp_path_factory, mix):
    lengths = synthetic.LENGTHS[: len(mix) // 2]
    rows = []
    for i, n in enumerate(lengths):
        for k, (pattern, algorithm) in enumerate(
            (("dense", "naive"), ("dense", "flash"), ("window=256", "flash"), ("causal", "naive"))
        ):
            slow = mix[(i * 2 + k // 2) % len(mix)] >> k % 2 & 1
            samples = [(5 + k) * n**1.9 * (1 + 0.001 * j) for j in range(7)]
            rows += [
                synthetic.row(pattern, algorithm, "avx2", n, samples, threads=t, cpu_share=0.6 if slow else 1)
                for t in (1, 2)
            ]
    run, sections = sections_of(tmp_path_factory.mktemp("mix"), rows)
    crossed = comparisons.crossovers(sections)
    made = record.analysis_object(sections)
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert len(made["crossovers"]) == len(crossed)
    for c in made["crossovers"]:
        clean = [entry["n"] for entry in c["lengths"]]
        assert sorted(clean + c["left_out"]) == list(lengths)
        assert all(entry["ratio"]["value"] > 0 for entry in c["lengths"])
        assert (NOT_DECIDED in c["text"]) == (len(clean) < 2)
    assert analysis_tables.of_run(sections, crossed, run)
    assert leading(sections, run) and text_table.text_table(sections, [run])
    for entry in tuning.choices(crossed):
        c = next(c for c in crossed if c.kind == "algorithm" and c.where == f"{entry.pattern}, {entry.isa}")
        assert entry.to_n == c.found.lengths[-1]
        assert entry.from_n in (0, c.found.lengths[0]) or c.found.crossings


# Guards what a disturbed stretch at the small lengths would say of them: nothing, so that no entry speaks for them. A
# stretch elsewhere leaves the first entry as it was.
@pytest.mark.parametrize(
    ("disturbed", "expected"),
    [
        ((128, 256, 512), [(1024, "flash")]),
        ((128,), [(256, "naive"), (700, "flash")]),
        ((8192,), [(0, "naive"), (700, "flash")]),
        ((256, 4096), [(0, "naive"), (700, "flash")]),
    ],
)
def test_tuning_does_not_begin_below_a_clean_length(tmp_path, disturbed, expected):
    rows = [
        r | ({"cpu_share": 1} if r["algorithm"] == "flash" else {}) for r in rows_of(disturbed, ("avx2",))
    ]
    _, sections = sections_of(tmp_path, rows)
    found = tuning.choices(comparisons.crossovers(sections))
    assert [(e.from_n, e.algorithm) for e in found] == [
        (pytest.approx(n, abs=20), name) for n, name in expected
    ]
    assert all(e.from_low <= e.from_n <= e.from_high for e in found)
    clean = [n for n in synthetic.LENGTHS if n not in disturbed]
    assert {e.to_n for e in found} == {clean[-1]}


# Guards the position of an entry where a crossover has none: in the middle of the two lengths, as a ratio.
def test_tuning_between_two_lengths(tmp_path):
    _, sections = sections_of(tmp_path, rows_of((512, 1024), ("avx2",)))
    below, above = tuning.choices(comparisons.crossovers(sections))
    assert (below.from_n, below.algorithm) == (0, "naive")
    assert (above.algorithm, above.from_low, above.from_high) == ("flash", 256, 2048)
    assert above.from_n == math.ceil(math.sqrt(256 * 2048)) and "between 256 and 2048" in above.reason


def naive_flash(sections):
    return [c for c in comparisons.crossovers(sections) if c.kind == "algorithm"]


# Guards every claim with an interval of a run that was disturbed as a whole: none is made, in any statement.
def test_nothing_is_claimed_of_disturbed_rows(tmp_path):
    run, sections = sections_of(tmp_path, rows_of(synthetic.LENGTHS))
    said = {s.subject: " ".join((s.text, *s.parts)) for s in leading(sections, run)}
    for subject in ("Growth", "ISA levels", "Algorithms", "Crossovers", "Patterns"):
        assert NOT_DECIDED in said[subject], subject
    for subject, text in said.items():
        assert not re.search(r"\[[\d., ]+\]", text), subject
        assert "faster" not in text.removeprefix("Where one of two becomes the faster:"), subject
    assert all(c.found.undecided and not c.found.crossings for c in comparisons.crossovers(sections))
    assert tuning.choices(comparisons.crossovers(sections)) == []
    shown = dict(analysis_tables.of_run(sections, comparisons.crossovers(sections), run))
    for title, table in shown.items():
        assert not re.search(r"\[[\d., ]+\]", str(table.rows)), title
    assert all(c["left_out"] and c["disturbed"] for c in record.analysis_object(sections)["crossovers"])


# Guards against silence: a crossover of clean rows is told, with its interval, whatever lengths elsewhere were
# disturbed; those are named.
@pytest.mark.parametrize("disturbed", [(), (128,), (8192,), (128, 4096, 8192)])
def test_crossover_of_clean_rows(tmp_path, disturbed):
    run, sections = sections_of(tmp_path, rows_of(disturbed))
    for c in naive_flash(sections):
        (crossing,) = c.found.crossings
        assert crossing.n == pytest.approx(PLANTED, rel=0.05)
        assert crossing.low <= PLANTED <= crossing.high
        assert (c.found.disturbed, c.disturbed) == (disturbed, bool(disturbed))
        left_out = f"n = {', '.join(map(str, disturbed))} left out: rows disturbed"
        assert (left_out in c.text) == bool(disturbed)
    said = {s.subject: " ".join((s.text, *s.parts)) for s in leading(sections, run)}
    assert "naive is faster below, flash above" in said["Crossovers"]
    assert NOT_DECIDED not in said["Crossovers"]


# Guards positions: across a disturbed length there is none, since its time is not known; the direction is.
@pytest.mark.parametrize("disturbed", [(512,), (1024,), (256, 512, 1024)])
def test_no_position_across_a_disturbed_length(tmp_path, disturbed):
    _, sections = sections_of(tmp_path, rows_of(disturbed))
    for c in naive_flash(sections):
        (crossing,) = c.found.crossings
        clean = [n for n in synthetic.LENGTHS if n not in disturbed]
        below, above = max(n for n in clean if n < PLANTED), min(n for n in clean if n > PLANTED)
        assert (crossing.low, crossing.high) == (below, above)
        assert (crossing.n is None) == (above > 2 * below)


# Guards the other ratios: told of the largest length whose rows are clean, not of a larger disturbed one.
def test_ratios_of_the_largest_clean_length(tmp_path):
    run, sections = sections_of(tmp_path, rows_of((4096, 8192)))
    said = {s.subject: " ".join((s.text, *s.parts)) for s in leading(sections, run)}
    for subject in ("ISA levels", "Algorithms", "Patterns"):
        assert "n=2048" in said[subject] and "n=8192" not in said[subject], subject
        assert "[" in said[subject] and NOT_DECIDED not in said[subject], subject


# Guards exponents and models: told as long as fewer rows are disturbed than a Theil-Sen slope bears, with an asterisk in
# each table, and beyond it in no table, label, statement or object.
@pytest.mark.parametrize("count", range(len(synthetic.LENGTHS) + 1))
def test_exponents(tmp_path, count):
    disturbed = synthetic.LENGTHS[1 : 1 + count] if count < len(synthetic.LENGTHS) else synthetic.LENGTHS
    rows = [r for r in rows_of(disturbed, ("avx2",)) if (r["pattern"], r["algorithm"]) == ("dense", "flash")]
    run = load_run(synthetic.write(tmp_path / "r.json", rows, caches=[]))
    sections = analysis.sections([run])
    (s,) = sections[0].series
    undecided = count > st.MOST_OUTLIERS * len(synthetic.LENGTHS)
    growth = next(p for p in leading(sections, run) if p.subject == "Growth").parts[0]
    assert growth.startswith(f"dense · flash: {NOT_DECIDED}, {count} of 7") == undecided
    shown = {t.split(":")[0]: table.rows for t, table in analysis_tables.of_run(sections, [], run)}
    (made,) = record.analysis_object(sections)["series"]
    assert made["disturbed"] == list(disturbed)
    texts = (str(shown), text_table.text_table(sections, [run]), lines.exponent_label(s), growth)
    if undecided:
        assert (s.exponent, s.two_term, s.pair_exponent, made["two_term"]) == (None,) * 4
        assert made["exponent"] is made["regimes"][0]["exponent"] is None
        assert NOT_DECIDED in made["regimes"][0]["reason"] and NOT_DECIDED in str(shown["Growth"])
        assert "t = a + b n + c n²" not in shown and lines.exponent_label(s) == "no exponent"
        assert not any(re.search(r"\[-?[\d.]+, ", text) for text in texts)
    else:
        assert s.exponent.value == pytest.approx(1.8, abs=0.3) and made["two_term"]
        assert all(re.search(r"\[-?[\d.]+, ", text) for text in texts)
        assert lines.exponent_label(s).endswith("*") == bool(count)
        (model,) = shown["t = a + b n + c n²"]
        assert [cell.endswith("]*") for cell in model[3:6]] == [bool(count)] * 3
        assert shown["Growth"][0][3].endswith("]*") == bool(count)


# Guards that the lengths at which they part have no say in that.
def test_within_of_what_does_not_part():
    ratios = tuple(st.Ratio(v, v / 1.02, v * 1.035) for v in (1.0, 2.0, 4.0))
    found = crossover.Comparison((1, 2, 4), (0, 1, 1), ratios, ())
    assert found.text(("a", "b")) == "none: within 4 % up to n = 1, b is faster from n = 2 on"
    found = crossover.Comparison((1, 2, 4), (0, 1, 1), (st.Ratio(1.0, 0.5, 1.01), *ratios[1:]), ())
    assert found.text(("a", "b")).startswith("none: within 100 % up to n = 1")
