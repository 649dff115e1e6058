"""Rows that asked for several threads and had work for fewer: they stay with what was asked for."""

import pytest
import synthetic
from attnscope_py import analysis, comparisons
from attnscope_py import statistics as st
from attnscope_py.reading import load_run
from specs import all_figures
from test_report_analyze import analyze

LENGTHS = (16, 32, 64, 128, 256, 512, 1024)


def rows_of(threads, idle=0, drop=()):
    """A row for each length; at the `idle` shortest one thread had work. `drop`: fields that are left out."""
    rows = []
    for i, n in enumerate(LENGTHS):
        used = 1 if i < idle else threads
        samples = [16.0 / used * n * n * (1 + 0.001 * s) for s in range(7)]
        row = synthetic.row("dense", "flash", "avx2", n, samples, threads=threads) | {"threads_used": used}
        rows.append({key: value for key, value in row.items() if key not in drop})
    return rows


def sections_of(tmp_path, rows):
    return analysis.sections([load_run(synthetic.write(tmp_path / "r.json", rows))])


# Guards what makes a series: the threads that were asked for. However many lengths are too short for all of them,
# and whatever fields are missing, each series has its own lengths once, and that of one thread is what it is alone.
@pytest.mark.parametrize("idle", range(len(LENGTHS) + 1))
@pytest.mark.parametrize("drop", [(), ("threads",), ("threads_used",)])
def test_idle_threads_change_no_series(tmp_path, idle, drop):
    (alone,) = sections_of(tmp_path, rows_of(1))
    found = sections_of(tmp_path, rows_of(1) + rows_of(2, idle, drop) + rows_of(4, idle, drop))
    assert sorted(s.group.threads for s in found) == [1, 2, 4]
    for section in found:
        (series,) = section.series
        assert [p.n for p in series.points] == list(LENGTHS)
        assert {p.row.id for p in series.points} == {
            row["id"] for row in rows_of(section.group.threads or 0, drop=drop)
        }
        if section.group.threads == 1:
            assert series.exponent == alone.series[0].exponent
            assert [r.points for r in series.regimes] == [r.points for r in alone.series[0].regimes]
    scale = comparisons.thread_scaling(found)
    assert [(t.threads, t.n) for t in scale] == [(t, n) for t in (2, 4) for n in LENGTHS]
    for t in scale:
        assert t.ratio.value == pytest.approx(1 if t.n in LENGTHS[:idle] else t.threads, rel=0.02)


# Guards the field of a file that Google Benchmark wrote, which is 1 whatever the harness's own threads are.
def test_the_id_says_the_threads(tmp_path):
    rows = [row | {"threads": 1} for row in rows_of(2)]
    (section,) = sections_of(tmp_path, rows)
    assert section.group.threads == 2


# Guards lengths that stand twice in one series, as where a level that was asked for is run by another: they count
# once, whatever the number of different ones, and a series of one length is not drawn over n.
@pytest.mark.parametrize("lengths", range(1, len(LENGTHS) + 1))
@pytest.mark.parametrize("doubled", [1, 2, len(LENGTHS)])
def test_a_length_twice_counts_once(tmp_path, lengths, doubled):
    rows = rows_of(1)[:lengths]
    rows += [row | {"id": row["id"].replace("/avx2/", "/avx512/")} for row in rows[:doubled]]
    (section,) = sections_of(tmp_path, rows)
    (series,) = section.series
    assert len(series.points) == lengths + min(doubled, lengths)
    assert series.lengths == list(LENGTHS[:lengths])
    assert (series.exponent is not None) == (lengths >= st.MIN_POINTS)
    if lengths < st.MIN_POINTS:
        assert series.regime == f"no exponent: {lengths} of at least {st.MIN_POINTS} lengths"
    else:
        assert sum(r.points for r in series.regimes) == lengths
    assert section.drawable == (lengths > 1)
    assert ("scaling" in {figure.name for _, figure in all_figures([series.run])}) == (lengths > 1)


# Guards the commands on such files: all of analyze and of the report's table, and no traceback.
@pytest.mark.parametrize("idle", [2, 5])
def test_commands_with_idle_threads(tmp_path, run, idle):
    rows = rows_of(1) + rows_of(2, idle) + rows_of(4, idle)
    rows += [row | {"id": row["id"].replace("/avx2/", "/avx512/")} for row in rows[:3]]
    path = synthetic.write(tmp_path / "r.json", rows)
    for done in (analyze("--print", path), run("--table", path)):
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        assert "2 threads" in done.stdout
