"""scripts/bench.sh, as far as it goes without a build; the suites measure through the program itself."""

import subprocess

import pytest
from testrunner.suites import ROOT

BENCH_SH = ROOT / "scripts" / "bench.sh"


def run(*arguments, cwd):
    return subprocess.run([BENCH_SH, *arguments], capture_output=True, text=True, cwd=cwd, timeout=60)


# Guards that a wrong --out is refused before anything is installed, built or measured: one line and exit code 2.
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--out"], "--out needs a file"),
        (["--out", "no/such/r.json"], "there is no directory no/such"),
        (["--n", "64", "--out=no/such/r.json"], "there is no directory no/such"),
        (["--out=here.json", "--out", "no/such/r.json"], "there is no directory no/such"),
    ],
)
def test_wrong_out(tmp_path, arguments, named):
    done = run(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("bench.sh: ") and done.stderr.count("\n") == 1
    assert named in done.stderr
    assert not list(tmp_path.iterdir())


# Guards that the scripts' own heads, which --help prints, name the README's two commands.
@pytest.mark.parametrize("name", ["bench.sh", "test.sh", "setup.sh"])
def test_head_is_the_help(name):
    head = (ROOT / "scripts" / name).read_text().split("\nset -")[0]
    assert f"#   scripts/{name}" in head
    assert f"scripts/{name}" in (ROOT / "README.md").read_text()
