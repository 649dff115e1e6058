"""scripts/setup.sh on machines made up of a PATH: what is missing there, what it says and what it installs."""

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from testrunner.suites import ROOT

TOOLS = "bash sh env dirname id sort head sed awk cat tail mkdir grep cksum paste rm tr uname wc"
APT = "/usr/bin/apt-get"

pytestmark = pytest.mark.skipif(not Path(APT).exists(), reason="checks the messages for apt")


class Machine:
    """A directory that is the whole PATH."""

    def __init__(self, path: Path):
        self.path = path
        self.log = path / "installed"
        for tool in TOOLS.split():
            (path / tool).symlink_to(shutil.which(tool))

    def add(self, name: str, text: str) -> None:
        """A program: lines of shell."""
        (self.path / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.path / name).chmod(0o755)

    def add_build_tools(self, missing: str = "none") -> None:
        """Everything of the group "build" but the pkg-config module `missing`."""
        for name in ("gcc", "g++", "ninja"):
            self.add(name, "exit 0")
        self.add("meson", "echo 1.3.0")
        self.add("pkg-config", f'[ "$2" != {missing} ]')

    def add_apt(self, refuses: str) -> None:
        """apt-get that notes what it shall install and fails when `refuses` is among it; sudo to start it."""
        self.add("apt-get", f'echo "$*" >>"{self.log}"; case "$*" in *{refuses}*) exit 100 ;; esac')
        self.add("sudo", 'shift; exec "$@"')

    def set_up(self, *groups: str, script: str = "setup.sh", **env: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [ROOT / "scripts" / script, *groups],
            capture_output=True,
            text=True,
            timeout=60,
            env={"PATH": str(self.path), "HOME": str(self.path), **env},
        )


@pytest.fixture
def machine(tmp_path) -> Machine:
    return Machine(tmp_path)


# Guards the message where nothing may be installed: one line that names the packages and the command, what
# is optional among them, and exit code 2.
def test_names_the_command(machine):
    (machine.path / "apt-get").symlink_to(APT)
    done = machine.set_up("build", ATTNSCOPE_NO_INSTALL="1")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    what, command = done.stderr.split(" Run: ")
    assert "apt-get install -y" in command
    for package in ("gcc", "g++", "ninja-build", "libbenchmark-dev"):
        assert f" {package}" in what and f" {package}" in command
    assert "libhwloc-dev" not in what and " libhwloc-dev" in command


# Guards that what is needed stops the set-up, also when it is the only thing missing.
def test_needed_package_stops(machine):
    machine.add_build_tools(missing="jansson")
    machine.add_apt(refuses="libjansson-dev")
    done = machine.set_up("build")
    assert done.returncode == 2
    assert "could not install: libjansson-dev" in done.stderr


# Guards that hwloc is optional: without it the set-up says so, with the command, and goes on.
def test_goes_on_without_optional_package(machine):
    machine.add_build_tools(missing="hwloc")
    (machine.path / "apt-get").symlink_to(APT)
    done = machine.set_up("build", ATTNSCOPE_NO_INSTALL="1")
    assert done.returncode == 0, done.stderr
    assert "install -y --no-install-recommends libhwloc-dev" in done.stderr
    assert "going on without libhwloc-dev" in done.stderr


# Guards that an optional package is installed where it can be had, and apart from those that are needed:
# apt installs nothing of a list in which one package is unknown.
@pytest.mark.parametrize("refuses", ["libhwloc-dev", "nothing"])
def test_installs_optional_package_apart(machine, refuses):
    machine.add_build_tools()
    # What was asked for is there afterwards.
    machine.add("pkg-config", f'grep -qs "lib$2-dev" "{machine.log}"')
    machine.add_apt(refuses)
    done = machine.set_up("build")
    assert done.returncode == 0, done.stderr
    needed, optional = [line for line in machine.log.read_text().splitlines() if " install " in line]
    assert needed.endswith(" libbenchmark-dev libjansson-dev")
    assert optional.endswith(" libhwloc-dev")
    assert ("going on without libhwloc-dev" in done.stderr) == (refuses == "libhwloc-dev")


# Guards that the long form is asked for by the same values in the runner and the C tests (is_set() in tests/support.c): 0 is off.
@pytest.mark.parametrize(("value", "full"), [("", False), ("0", False), ("1", True), ("yes", True)])
def test_values_that_mean_full(value, full):
    env = {**os.environ, "ATTNSCOPE_TEST_FULL": value}
    runner = "import sys; sys.path.insert(0, 'scripts'); from testrunner import builds; print(builds.FULL)"
    said = subprocess.run([sys.executable, "-c", runner], capture_output=True, text=True, cwd=ROOT, env=env)
    assert said.stdout.strip() == str(full), said.stderr
    # Nothing in the scripts looks at the variable in a way of its own.
    for name in ("test.sh", "setup.sh", "bench.sh"):
        uses = re.findall(r"^.*ATTNSCOPE_TEST_FULL.*$", (ROOT / "scripts" / name).read_text(), re.MULTILINE)
        assert all("export ATTNSCOPE_TEST_FULL=1" in use for use in uses), uses


# Guards that nothing is said or installed where everything is there.
def test_silent_when_complete(machine):
    machine.add_build_tools()
    machine.add_apt(refuses="nothing")
    done = machine.set_up("build")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not machine.log.exists()


MANAGERS = {"apt": "apt-get", "dnf": "dnf", "pacman": "pacman", "brew": "brew"}  # in the order of the columns


def table() -> list[list[str]]:
    """The rows of the table in setup.sh: group, what is looked for, and a package for each of MANAGERS."""
    text = (ROOT / "scripts" / "setup.sh").read_text()
    lines = re.search(r"^readonly table='\n(.*?)^'", text, re.MULTILINE | re.DOTALL)[1].splitlines()
    return [line.split() for line in lines]


def packages_of(group: str, manager: str, optional: bool = True) -> set[str]:
    """What this manager installs for a group, without what is also looked for outside the PATH."""
    column = 2 + list(MANAGERS).index(manager)
    rows = [row for row in table() if row[0] == group and not row[1].startswith(("meson:", "python:"))]
    return {row[column] for row in rows if optional or "?:" not in row[1]} - {"-"}


GROUPS = sorted({row[0] for row in table()} - {"python"})  # which makes .venv, too


# Guards that a group asked for by name is looked for, whatever this CPU could do without it, and that nothing is
# taken to be there because of the manager: where nothing is, each package of its column is named. Where no manager
# is, what is needed is named as Debian does.
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("manager", [*MANAGERS, "none"])
def test_named_group_is_wanted(machine, manager, group):
    if group in ("arm", "oldcpu", "avx512") and platform.machine() != "x86_64":
        pytest.skip("emulates another CPU on x86-64 only")
    if manager == "none":
        wanted = packages_of(group, "apt", optional=False)
    else:
        machine.add(MANAGERS[manager], "exit 1")
        wanted = packages_of(group, manager)
        assert wanted or manager != "apt"
    done = machine.set_up(group, ATTNSCOPE_NO_INSTALL="1")
    assert wanted <= set(re.findall(r"[\w.+-]+", done.stderr))
    assert done.stderr or not wanted


# Guards that what only apt can look for is not asked of another manager.
def test_debian_packages_are_for_apt_alone():
    assert all(len(row) == 6 for row in table())
    assert [row for row in table() if row[1].startswith("deb") and set(row[3:]) != {"-"}] == []


# Guards the look for OpenMP, which is the same under every manager: it is there if the compiler makes a program of
# it, header and library.
@pytest.mark.parametrize("works", [True, False])
@pytest.mark.parametrize("manager", ["apt", "dnf", "pacman"])
def test_openmp_of_a_compiler(machine, manager, works):
    machine.add(
        "clang", f'cat >"{machine.path}/program"; echo "$*" >"{machine.path}/said"; {str(works).lower()}'
    )
    machine.add("clang++", "exit 0")
    machine.add(MANAGERS[manager], "exit 1")
    done = machine.set_up("clang", ATTNSCOPE_NO_INSTALL="1")
    (package,) = packages_of("clang", manager) - {"clang"}
    assert (done.returncode, f" {package}" in done.stderr) == ((0, False) if works else (2, True))
    assert "#include <omp.h>" in (machine.path / "program").read_text()
    said = (machine.path / "said").read_text().split()
    assert "-fopenmp" in said and not {"-c", "-S", "-E", "-fsyntax-only"} & set(said)


# Guards the groups that are named: --help and the refusal of another list those of the table, each once, and every
# suite's are among them.
def test_groups_are_those_of_the_table(machine):
    machine.add_apt(refuses="nothing")
    named = re.search(r"^Groups: (.*)$", machine.set_up("--help").stdout, re.MULTILINE)[1].split()
    assert named == [*dict.fromkeys(row[0] for row in table()), "python-dev"]
    for wrong in ("tests", "build test", "", "*", "dev"):
        refused = machine.set_up("build", wrong)
        assert refused.returncode == 2
        assert refused.stderr == f"setup.sh: unknown group: {wrong} ({' '.join(named)})\n"


# Guards that test.sh wants the emulator of AVX-512 on every CPU: one that has it boots a guest too.
@pytest.mark.skipif(platform.machine() != "x86_64", reason="emulates another CPU on x86-64 only")
def test_emulator_is_wanted(machine):
    (machine.path / "apt-get").symlink_to(APT)
    done = machine.set_up("avx512", script="test.sh", ATTNSCOPE_NO_INSTALL="1")
    assert done.returncode == 2 and " Run: " in done.stderr
    assert " bochs" in done.stderr
