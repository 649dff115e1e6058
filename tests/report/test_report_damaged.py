"""Files that were damaged anywhere: what reads results says so in one line, or makes what it can of the rest."""

import contextlib
import copy
import io
import json
import os

import pytest
import specs
import synthetic
import words
from attnscope_py import (
    analysis,
    command,
    command_analyze,
    command_export,
    command_merge,
    page,
)
from attnscope_py.command_export import FORMATS
from attnscope_py.reading import load_run
from attnscope_py.results import ResultError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as hs

LENGTHS = (128, 256, 512, 1024, 2048)
HERE = f"{0x1234:016x}"


def whole():
    """A small file with all that a file of `attnscope bench` has."""
    rows = []
    for algorithm, factor in (("naive", 2.0), ("flash", 1.0)):
        for isa in ("scalar", "avx2"):
            rows += [synthetic.row("dense", algorithm, isa, n, [factor * n * n] * 7) for n in LENGTHS]
    rows += [synthetic.row("window=256", "flash", "avx2", n, [99.0 * n] * 3) for n in LENGTHS]
    rows[0] |= {"counters": {"instructions": 5e6, "ipc": 2.5}, "presets": "gpt2:prefill", "stage_share": 0.5}
    rows[1] |= {"counters": {"reason": "too few cycles"}, "limited_by": "compute", "limit_compute_pct": 60.0}
    rows[2] |= {"error_occurred": True, "error_message": "no memory"}
    return synthetic.document(
        rows,
        fingerprint=HERE,
        left_out=[{"id": "attention/x", "reason": "too long", "predicted_ns": 1e10}],
        not_measured=["attention/y"],
        checksums_differ=[{"id": rows[0]["id"], "with": rows[5]["id"]}],
    )


WHOLE = whole()


def places(value, at=()):
    """Every place of a document, those of one list standing for all of its like."""
    yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        if not (isinstance(value, list) and key > 2):
            yield from places(part, (*at, key))


PLACES = [place for place in places(WHOLE) if place]
ODD = hs.sampled_from(
    [None, True, False, 0, 1, -1, 0.5, -0.0, 5e-324, 1e31, 1.7e308, 2**63, 10**300, 10**399]
    + ["", "x", "7", "naive", "\ud800", "\udfff\ud800", "\n\x1b", "<b>", "9" * 5000, "../../etc", "window=9"]
    + [[], {}, [[]], [1], [None], ["x"], [{}], {"": 1}, {"x": {}}, {"id": 3}, [[[[[[[[]]]]]]]]]
)
DAMAGE = hs.lists(hs.tuples(hs.sampled_from(PLACES), ODD | hs.just("(gone)")), min_size=1, max_size=3)


def damaged(changes):
    made = copy.deepcopy(WHOLE)
    for place, value in changes:
        holder = made
        with contextlib.suppress(KeyError, IndexError, TypeError):  # what held it may be gone by now
            for key in place[:-1]:
                holder = holder[key]
            if value == "(gone)":
                del holder[place[-1]]
            elif not isinstance(holder, str):
                holder[place[-1]] = value
    return made


def ends(main, *arguments):
    """Runs a program in this process: its exit code and what it said. Anything but an end of its own is raised."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(a) for a in arguments])
        except SystemExit as end:
            code = end.code
    return code, err.getvalue()


def page_of(path):
    """All that the page is made of, but for the drawing."""
    runs = [load_run(path)]
    runs[0].label = runs[0].host
    sections = analysis.sections(runs)
    chapters = [
        page.Chapter(section, tuple(page.Drawn(figure, (), ()) for figure in found))
        for section, found in specs.planned(sections)
        if found
    ]
    return words.page_of(runs, sections, chapters).encode()


def check(path, document):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)
    said = []
    for main, *arguments in (
        (command.main, "--table", path),
        (command_analyze.main, "--print", path),
        (command_merge.main, path, "--out", os.path.join(os.path.dirname(path), "merged")),
        *((command_export.main, path, "--format", name) for name in FORMATS),
        (command_analyze.main, path),
    ):
        code, err = ends(main, *arguments)
        said.append(code)
        assert code in (0, 2, 4), (code, err)
        if code:
            assert err.count("\n") == 1 and len(err) < 1000, err
    # What one of them cannot read none can; merging asks for more.
    assert len({code for i, code in enumerate(said) if i != 2}) == 1, said
    try:
        assert page_of(path)
        assert said[0] == 0
    except ResultError:
        assert said[0] != 0
    return said[0]


# Guards every reader of result files against damage of every kind at any place of one, several at once: one line and
# exit code 2 or 4, the same of all, or an answer; never a traceback, which this would show.
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=DAMAGE)
def test_damaged_anywhere(tmp_path, changes):
    check(str(tmp_path / "r.json"), damaged(changes))


# Guards the kinds that were found: each refused by its place.
@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("benchmarks", 3, "time_unit"), ["ns"], "time_unit is ['ns']"),
        (("context", "machine", "fields"), 3, "context.machine.fields is 3, not an object"),
        (("context", "sessions", 0), "x", "context.sessions[0] is 'x', not an object"),
        (("context", "peak_gflops"), [], "context.peak_gflops is [], not an object"),
        (("context", "peak_gflops", "avx2"), "9", "context.peak_gflops.avx2 is '9', not a number"),
        (
            ("context", "peak_gflops", "avx2"),
            5e-324,
            "context.peak_gflops.avx2 is 5e-324, between 0 and 1e-30",
        ),
        (("context", "roofline", 0, "level", "l2", "read_gbs"), 1e-31, "l2.read_gbs is 1e-31, between 0 and"),
        (("context", "host_name"), "\ud800", "surrogate"),
        (("benchmarks", 0, "counters", "ipc"), [], "counters.ipc is [], not a number"),
        (("benchmarks", 0, "pairs_useful"), 5e-324, "pairs_useful is 4.94066e-324, between 0 and 1e-30"),
        (("benchmarks", 0, "bytes_compulsory"), 1e31, "bytes_compulsory is 1e+31, above 1e+30"),
        (("benchmarks", 0, "session"), 0, "session is 0, below 1"),
        (("context", "rows_disturbed"), 1.5, "context.rows_disturbed is 1.5, not an integer"),
    ],
)
def test_refused_by_place(tmp_path, place, value, said):
    path = tmp_path / "r.json"
    path.write_text(json.dumps(damaged([(place, value)])))
    for main, *more in (
        (command.main, "--table"),
        (command_analyze.main,),
        (command_export.main, "--format", "csv"),
        (command_merge.main, "--out", tmp_path / "merged"),
    ):
        code, err = ends(main, path, *more)
        assert code == 2 and said in err and err.count("\n") == 1


# Guards the tests' own files: what is refused of damaged ones is taken of whole ones.
def test_whole_is_taken(tmp_path):
    assert check(str(tmp_path / "r.json"), WHOLE) == 0
