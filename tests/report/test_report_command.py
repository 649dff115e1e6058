"""The command line: options, exit codes, one-line errors, and files that are whole or not there."""

import importlib.metadata
import os
import re
import resource
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import synthetic
from packaging.requirements import Requirement

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "attnscope-report"


def one_line_error(done, *parts, code=2):
    assert done.returncode == code, (done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.startswith("attnscope report: ")
    assert done.stderr.count("\n") == 1
    for part in parts:
        assert part in done.stderr


# Guards the help page: on standard output, with examples, without the packages that drawing needs.
def test_help(run):
    done = run("--help")
    assert done.returncode == 0 and done.stderr == ""
    for part in (
        "examples:",
        "--out DIR",
        "--no-png",
        "--table",
        "exit codes:",
        "attnscope report results.json",
    ):
        assert part in done.stdout


# Guards usage errors: one line that names the value.
@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "no result file given"),
        (["r.json"], "--out DIR or --table is needed"),
        (["r.json", "--out", "x", "--table"], "one of the two"),
        (["r.json", "--out"], "--out"),
        (["r.json", "--out", ""], "--out ''"),
        (["r.json", "--output", "x"], "--output"),
        (["r.json", "--table", "--no-png"], "--no-png does not apply to --table"),
        (["r.json", "--tab"], "--tab"),
        (["r.json", "-x"], "-x"),
    ],
)
def test_usage(run, arguments, part):
    one_line_error(run(*arguments), part)


# Guards bad files: exit 2 or 4, the file named, and no output directory made.
@pytest.mark.parametrize(
    ("text", "part", "code"),
    [
        ('{"context": {}, "benchmarks": [{"id": "a", "real_time": NaN}]}', "line 1 column 57: NaN", 2),
        ('{"context": {}, "benchmarks": [', "breaks off", 2),
        ('{"context": {}, "benchmarks": []}', "no row was measured", 4),
        ("hello", "line 1 column 1", 2),
    ],
)
@pytest.mark.parametrize("table", [True, False])
def test_bad_file(run, tmp_path, text, part, code, table):
    file = tmp_path / "r.json"
    file.write_text(text)
    out = tmp_path / "made" / "out"
    one_line_error(run(file, *(["--table"] if table else ["--out", out])), "r.json", part, code=code)
    assert not out.parent.exists()


# Guards control characters: a file's text cannot break the line or the terminal.
def test_error_stays_one_line(run, tmp_path):
    rows = [synthetic.row("dense", "flash", "avx2", 128, [1.0], id="a\n\x1b[31mb", name=None, real_time="x")]
    one_line_error(run(synthetic.write(tmp_path / "r.json", rows), "--table"), "a??[31mb")
    one_line_error(run(tmp_path / "no\nsuch.json", "--table"), "no?such.json")


# Guards the table: alone on standard output, nothing drawn, and the same that a drawn report prints.
def test_table(run, sweep_file, small_file, small_drawn, tmp_path):
    done = run("--table", sweep_file, cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    assert "dense · flash" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 110
    assert list(tmp_path.iterdir()) == []
    table = run("--table", small_file, cwd=tmp_path).stdout
    place, printed = small_drawn
    assert printed == f"{table}\nhere/report.html and 1 chart, each as SVG and PNG\n"
    assert list(place.iterdir()) == [place / "here"]


# Guards --no-png: the same SVG files and no PNG, none that the page links to, and words that say so.
def test_no_png(run, small_file, small_drawn, tmp_path):
    done = run(small_file, "--out", "here", "--no-png", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.endswith("\nhere/report.html and 1 chart, as SVG\n")
    with_png, without = small_drawn[0] / "here", tmp_path / "here"
    names = {path.name for path in without.iterdir()}
    assert names == {path.name for path in with_png.iterdir()} - {"scaling.png"}
    assert (without / "scaling.svg").read_bytes() == (with_png / "scaling.svg").read_bytes()
    page = (without / "report.html").read_text(encoding="utf-8")
    assert re.findall(r'href="([^"#]+)"', page) == ["scaling.svg"]


# Guards a standard output that takes nothing: an error, as a full disk is one, whether Python buffers or not.
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("what", ["--help", "--table", "--out"])
def test_full_standard_output(small_file, tmp_path, what, buffered):
    options = {"--help": [], "--table": [small_file], "--out": [str(tmp_path / "drawn"), small_file]}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, str(SCRIPT), what, *options[what]],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=os.environ | {"PYTHONUNBUFFERED": "" if buffered else "1"},
        )
    assert done.returncode == 2
    assert done.stderr == "attnscope report: cannot write standard output: No space left on device\n"


# Guards a reader that goes away: no traceback.
def test_closed_pipe(sweep_file):
    command = f"{sys.executable} {SCRIPT} --table {sweep_file} | true"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""


# Guards warnings: the report is drawn, and what failed is named on standard error.
def test_failed_rows_are_warned_of(run, tmp_path):
    rows = synthetic.power_law(1.0, 2.0, pct_peak=50.0)
    rows[0] |= {"error_occurred": True, "error_message": "no memory\nat all"}
    done = run("--table", synthetic.write(tmp_path / "r.json", rows))
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "warning" in done.stderr and "no memory?at all" in done.stderr


# Guards output that cannot be made: a file where the directory should be.
def test_directory_cannot_be_made(run, small_file, tmp_path):
    (tmp_path / "file").write_text("mine")
    one_line_error(run(small_file, "--out", tmp_path / "file"), "cannot write", "file")
    one_line_error(run(small_file, "--out", tmp_path / "file" / "below"), "cannot write", "file")
    assert (tmp_path / "file").read_text() == "mine"


# Guards a standard output that is closed: one line, no traceback.
def test_closed_standard_output(sweep_file):
    command = f'exec "{sys.executable}" "{SCRIPT}" --table "{sweep_file}" >&-'
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == "attnscope report: standard output is closed\n"


# Guards a full disk half-way: the old report stays as it was, nothing half-written is left.
def test_disk_full(small_file, tmp_path):
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))

    def draw(out):
        command = [sys.executable, str(SCRIPT), small_file, "--out", str(out)]
        return subprocess.run(command, capture_output=True, text=True, preexec_fn=limited, check=False)

    old = tmp_path / "old"
    old.mkdir()
    (old / "report.html").write_text("old")
    one_line_error(draw(old), "cannot write", "scaling.svg")
    assert [(p.name, p.read_text()) for p in old.iterdir()] == [("report.html", "old")]
    one_line_error(draw(tmp_path / "new" / "deep"), "cannot write")
    assert not (tmp_path / "new").exists()


# Guards permissions of what is written: as the user's mask says, not private as temporary files are.
def test_permissions(drawn):
    mask = os.umask(0)
    os.umask(mask)
    for path in drawn.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


# Runs the program as a Python without packages would, from a directory that is not the caller's.
def without_packages(program, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-S", "-E", str(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env=os.environ | environment,
    )


@pytest.fixture
def installed(tmp_path):
    """The program where `meson install` puts it, below a path with a space."""
    scripts = SCRIPT.parent
    share = tmp_path / "some where" / "share" / "attnscope"
    shutil.copytree(scripts / "attnscope_py", share / "attnscope_py", ignore=lambda *_: ["__pycache__"])
    shutil.copy(scripts / "requirements.txt", share)
    (share.parents[1] / "bin").mkdir()
    return Path(shutil.copy(SCRIPT, share.parents[1] / "bin"))


# Guards the message where the Python packages are missing: one line, and in a source tree the script to run.
def test_missing_packages(sweep_file):
    done = without_packages(SCRIPT, sweep_file, "--table")
    one_line_error(done, "jsonschema is not installed", f"{SCRIPT.parent}/setup.sh python")


# Guards the same of an installation: commands that can be pasted in any directory and leave the system's Python
# alone.
def test_missing_packages_of_an_installation(sweep_file, installed):
    requirements = installed.parents[1] / "share" / "attnscope" / "requirements.txt"
    done = without_packages(installed, sweep_file, "--table", HOME="/home/some one")
    one_line_error(done, "jsonschema is not installed")
    venv = "/home/some one/.local/share/attnscope/venv"
    python = sys.executable
    fill = f"'{venv}'/bin/pip install -r '{requirements}'"
    wanted = f"{python} -m venv '{venv}' && {fill} && export ATTNSCOPE_PYTHON='{venv}'/bin/python"
    assert done.stderr.rstrip().endswith(f"; run: {wanted}")


# Guards ATTNSCOPE_PYTHON: an installation uses the Python that it names, once; a name that is none is an error.
def test_chosen_python(sweep_file, installed):
    done = without_packages(installed, sweep_file, "--table", ATTNSCOPE_PYTHON=sys.executable)
    assert done.returncode == 0, done.stderr
    assert "dense · flash" in done.stdout
    done = without_packages(installed, sweep_file, "--table", ATTNSCOPE_PYTHON="/no/python")
    one_line_error(done, "ATTNSCOPE_PYTHON=/no/python", "No such file")
    # A source tree has its own; there the variable says what that is made from.
    done = without_packages(SCRIPT, sweep_file, "--table", ATTNSCOPE_PYTHON="/no/python")
    one_line_error(done, "jsonschema is not installed")


# Guards what a user has to install: the packages that the report imports, with all that those need, and no other.
def test_requirements_are_what_is_needed():
    def name(text):
        return re.sub(r"[-_.]+", "-", text).lower()

    scripts = SCRIPT.parent
    listed = {
        name(line.split("==")[0])
        for line in (scripts / "requirements.txt").read_text().splitlines()
        if line and not line.startswith("#")
    }
    of_module = importlib.metadata.packages_distributions()
    imported = set()
    for path in (scripts / "attnscope_py").glob("*.py"):
        for found in re.findall(r"^\s*(?:from|import) (\w+)", path.read_text(), re.MULTILINE):
            imported |= {name(package) for package in of_module.get(found, [])}
    needed, waiting = set(), sorted(imported)
    while waiting:
        package = waiting.pop()
        if package not in needed:
            needed.add(package)
            for text in importlib.metadata.requires(package) or []:
                requirement = Requirement(text)
                if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                    waiting.append(name(requirement.name))
    assert listed == needed


# Guards the same input, the same output: files can be compared.
def test_reproducible(run, small_file, small_drawn, tmp_path):
    assert run(small_file, "--out", tmp_path).returncode == 0
    once = small_drawn[0] / "here"
    names = sorted(path.name for path in once.iterdir())
    assert names == ["report.html", "scaling.png", "scaling.svg"]
    for name in names:
        assert (tmp_path / name).read_bytes() == (once / name).read_bytes(), name


def test_input_is_not_replaced(run, small_file, tmp_path):
    """A result file that is called as a file of the report stays what it is."""
    file = tmp_path / "report.html"
    file.write_bytes(Path(small_file).read_bytes())
    done = run("report.html", "--out", ".", cwd=tmp_path)
    assert done.returncode == 2 and "named as an input" in done.stderr and done.stderr.count("\n") == 1
    assert file.read_bytes() == Path(small_file).read_bytes()
