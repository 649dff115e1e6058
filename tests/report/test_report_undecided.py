"""What is not decided: an interval of rows that other work disturbed says nothing, one of the others still does."""

import re

import pytest
import synthetic
from attnscope_py import analysis, analysis_tables, comparisons, record, tuning
from attnscope_py import statistics as st
from attnscope_py.crossover import NOT_DECIDED
from attnscope_py.reading import load_run
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
        if not title.startswith(("Growth", "t = ")):
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


# Guards exponents: told as long as fewer rows are disturbed than a Theil-Sen slope bears, and not beyond.
@pytest.mark.parametrize("count", range(len(synthetic.LENGTHS) + 1))
def test_exponents(tmp_path, count):
    disturbed = synthetic.LENGTHS[1 : 1 + count] if count < len(synthetic.LENGTHS) else synthetic.LENGTHS
    rows = [r for r in rows_of(disturbed, ("avx2",)) if (r["pattern"], r["algorithm"]) == ("dense", "flash")]
    run, sections = sections_of(tmp_path, [r | {"caches": None} for r in rows])
    (s,) = sections[0].series
    fitted = [n for n in synthetic.LENGTHS if s.exponent.n_low <= n <= s.exponent.n_high]
    share = len(set(fitted) & set(disturbed)) / len(fitted)
    assert s.undecided(s.exponent) == (share > st.MOST_OUTLIERS)
    growth = next(p for p in leading(sections, run) if p.subject == "Growth").parts[0]
    assert growth.startswith(f"dense · flash: {NOT_DECIDED}") == (share > st.MOST_OUTLIERS)
