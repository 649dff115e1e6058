"""The front door: help, versions, unknown subcommands, and programs that are subcommands."""

import os
import re
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import program

BUILT_IN = ("info", "verify", "eval", "show")
SUBCOMMANDS = (*BUILT_IN, "bench", "analyze", "export", "merge", "report")
# A value that is right for an option of any subcommand, where 1 is not.
VALUES = {
    "--algorithm": "flash",
    "--dtype": "f16",
    "--isa": "scalar",
    "--layout": "bnhd",
    "--pattern": "causal",
    "--prefer": "last",
    "--format": "csv",
}


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def listed(page: str) -> list[str]:
    """The subcommands of the front door's help page."""
    return re.findall(r"^  ([a-z]+) {2,}\S", page.split("Examples:")[0], re.MULTILINE)


def test_help(attnscope):
    """--help, -h and help list every subcommand, with examples."""
    pages = [attnscope(*arguments) for arguments in (["--help"], ["-h"], ["help"])]
    assert all((page.code, page.err) == (0, "") for page in pages)
    assert len({page.out for page in pages}) == 1
    assert listed(pages[0].out) == list(SUBCOMMANDS)
    assert "Examples:" in pages[0].out


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_listed_subcommands_exist(attnscope, name):
    """What the help lists can be started."""
    assert attnscope(name, "--help").code == 0


def one_value_options(page: str) -> list[str]:
    """The options with a value on a help page, but for those marked as lists: the text before two spaces is
    "--name VALUE", or "--a, --b VALUE"."""
    options = []
    for line in re.findall(r"^  (--\S.*?)(?: {2,}.*)?$", page, re.MULTILINE):
        names, value = re.findall(r"--[a-z-]+(?=[ ,=]|$)", line), re.search(r"[ =][A-Z]", line)
        if value and not line.endswith("*"):
            options += [name for name in names if name not in options]
    return options


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_an_option_has_one_value(attnscope, tmp_path, name):
    """Of two values for an option one would not count: refused by name, whichever option, and however written. An
    option that may be repeated makes a list, and its help page says so with a star."""
    options = one_value_options(attnscope(name, "--help").out)
    assert len(options) >= {"info": 0, "analyze": 0, "eval": 20, "bench": 12}.get(name, 1), options
    (tmp_path / "tuning.json").write_text('{"tuning": []}')
    for option in options:
        value = str(tmp_path / "tuning.json") if option == "--tuning" else VALUES.get(option, "1")
        done = attnscope(name, option, value, f"{option}={value}")
        refusal = f"attnscope {name}: more than one value given for {option}; see attnscope {name} --help\n"
        assert (done.code, done.out, done.err) == (2, "", refusal)


def test_what_is_not_there_is_not_listed(tmp_path):
    """The program by itself, as a build without Google Benchmark leaves it: help and errors speak of the
    subcommands that it has, and a program put beside it is listed."""
    alone = shutil.copy2(program(), tmp_path / "attnscope")

    def run(*arguments):
        return subprocess.run([alone, *arguments], env={"PATH": ""}, capture_output=True, text=True)

    assert listed(run("help").stdout) == list(BUILT_IN)
    for arguments in (["nosuch"], [], ["--nosuch"]):
        assert run(*arguments).stderr.endswith(f": {', '.join(BUILT_IN)}\n")
    refusal = run("bench")
    assert refusal.returncode == 2 and "bench is not part of this build" in refusal.stderr
    script(tmp_path / "attnscope-report", "#!/bin/sh\n")
    assert listed(run("help").stdout) == [*BUILT_IN, "report"]


@pytest.mark.parametrize("name", BUILT_IN)
def test_help_pages(attnscope, name):
    """Every subcommand has a help page with usage and examples, and lines that fit a terminal."""
    page = attnscope(name, "--help")
    assert (page.code, page.err) == (0, "")
    assert page.out.startswith(f"Usage: attnscope {name}")
    assert "Examples:" in page.out and f"  attnscope {name}" in page.out
    assert max(map(len, page.out.splitlines())) <= 120
    assert attnscope("help", name).out == page.out
    assert attnscope(name, "-h").out == page.out


def test_version(attnscope):
    """--version names the program and a version."""
    outcome = attnscope("--version")
    name, version = outcome.out.split()
    assert outcome.code == 0 and name == "attnscope" and version.count(".") == 2


@pytest.mark.parametrize("name", ["foo", "Info", "inf", "../info", "", "a b", "info\n"])
def test_unknown_subcommand(refused, name):
    """An unknown subcommand is named, with those that are accepted."""
    refused([name], "unknown subcommand", *SUBCOMMANDS)


def test_no_subcommand(refused):
    """No subcommand is an error that lists them."""
    refused([], *SUBCOMMANDS)


def test_unknown_option(refused):
    """Options of the front door are its own."""
    refused(["--foo"], "--foo", "--help")


@pytest.mark.parametrize("name", BUILT_IN)
def test_unknown_options_of_subcommands(refused, name):
    """Every subcommand names the option that it does not know, and takes no stray arguments."""
    refused([name, "--no-such-option"], f"attnscope {name}:", "--no-such-option")
    refused([name, "stray"], f"attnscope {name}:", "'stray'")


def test_program_on_path(attnscope, tmp_path):
    """attnscope-NAME on PATH is the subcommand NAME: it gets the arguments and the path of attnscope,
    and its exit code is the command's."""
    script(tmp_path / "attnscope-hello", '#!/bin/sh\necho "$# $1 $2 $ATTNSCOPE"\nexit 3\n')
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    outcome = attnscope("hello", "a b", "--c", env=path)
    assert (outcome.code, outcome.out) == (3, f"2 a b --c {program()}\n")
    assert attnscope("help", "hello", env=path).out.startswith("1 --help")


def test_built_in_goes_first(attnscope, tmp_path):
    """A program on PATH does not replace a built-in subcommand."""
    script(tmp_path / "attnscope-info", "#!/bin/sh\nexit 9\n")
    assert attnscope("info", "--help", env={"PATH": str(tmp_path)}).code == 0


def test_beside_the_program_goes_before_path(attnscope, tmp_path):
    """A program beside attnscope is found before one on PATH, also when attnscope was started through
    a link."""
    beside = tmp_path / "bin" / "attnscope"
    beside.parent.mkdir()
    shutil.copy2(program(), beside)
    script(tmp_path / "bin" / "attnscope-hello", "#!/bin/sh\necho beside\n")
    script(tmp_path / "path" / "attnscope-hello", "#!/bin/sh\necho path\n")
    (tmp_path / "link").symlink_to(beside)
    environment = os.environ | {"PATH": f"{tmp_path / 'path'}:{os.environ['PATH']}"}
    for start in (beside, tmp_path / "link"):
        done = subprocess.run([start, "hello"], env=environment, capture_output=True, text=True)
        assert done.stdout == "beside\n"


def test_build_that_is_not_installed(attnscope):
    """The program in its build directory finds its neighbours there, before PATH, and runs Python
    scripts in the environment that the set-up made."""
    build = Path(program()).parents[1]
    if not (build / "meson-private").is_dir():
        pytest.skip("the program under test is not in its build directory")
    name = f"lookup-test-{os.getpid()}"
    neighbour = build / "bench" / f"attnscope-{name}"
    try:
        script(neighbour, "#!/usr/bin/env python3\nimport sys\nprint(sys.prefix, sys.argv[1:])\n")
        outcome = attnscope(name, "x")
    finally:
        neighbour.unlink(missing_ok=True)
    assert outcome.code == 0 and outcome.out.endswith(" ['x']\n")
    environment = Path(__file__).parents[2] / ".venv"
    assert not environment.exists() or outcome.out.startswith(f"{environment} ")


def test_python_script_without_permission_to_execute(attnscope, tmp_path):
    """A .py file needs no execute permission: Python runs it."""
    (tmp_path / "attnscope-hello.py").write_text("import sys; print(sys.argv[1:])\n")
    outcome = attnscope("hello", "x", env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert outcome.out == "['x']\n"


def test_program_that_does_not_start(refused, tmp_path):
    """A program that is there and cannot be started is an error with the reason."""
    script(tmp_path / "attnscope-hello", "#!/no/such/interpreter\n")
    refused(["hello"], "attnscope-hello", "No such file", env={"PATH": str(tmp_path)})


# Everything that a subcommand may print, the short and the long; bench and report are programs of their own.
PRINTING = (
    ["--help"],
    ["--version"],
    ["help", "show"],
    ["show"],
    ["show", "--svg", "PLACE/p.svg"],
    ["show", "--n", "4096", "--pattern", "causal", "--tiles"],
    ["info"],
    ["info", "--json"],
    ["verify", "--help"],
    ["eval", "--help"],
    ["bench", "--help"],
    ["bench", "--list-presets"],
    ["bench", "--n", "1:1024", "--dry-run"],
    ["bench", "--n", "1:1024", "--benchmark_list_tests=true"],
    ["bench", "--n", "16", "--no-roofline", "--benchmark_min_time=0.002s"],
    ["report", "--help"],
    ["analyze", "--help"],
)


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("how", ["full", "limit"])
def test_standard_output_that_cannot_be_written(attnscope, tmp_path, how, buffered):
    """A full disk behind standard output, or a limit on the size of files, does not pass for success: one line
    of error from every subcommand, whether Python buffers or not, and no file is left."""

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it; a shell's programs do not
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    path = tmp_path / "printed"
    path.write_text("")
    for arguments in PRINTING:
        with open("/dev/full" if how == "full" else path, "w") as out:
            outcome = attnscope(
                *(a.replace("PLACE", str(tmp_path)) for a in arguments),
                capture_output=False,
                stdout=out,
                stderr=subprocess.PIPE,
                preexec_fn=limited if how == "limit" else None,
                env={"PYTHONUNBUFFERED": "" if buffered else "1"},
            )
        assert outcome.code == 2, (arguments, outcome)
        assert outcome.err.count("cannot write") == 1, (arguments, outcome)  # beside what bench warns of
        assert "attnscope" in outcome.err.splitlines()[-1], (arguments, outcome)
        assert "Traceback" not in outcome.err
        assert list(tmp_path.iterdir()) == [path]
