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


def packages_of_groups() -> dict[str, set[str]]:
    """From the table in setup.sh: what apt installs for each group, without what is also looked for outside the
    PATH."""
    text = (ROOT / "scripts" / "setup.sh").read_text()
    packages: dict[str, set[str]] = {}
    for line in re.search(r"^readonly table='\n(.*?)^'", text, re.MULTILINE | re.DOTALL)[1].splitlines():
        group, look, apt, *_ = line.split()
        if not look.startswith(("meson:", "python:")):
            packages.setdefault(group, set()).add(apt)
    return packages


# Guards that a group asked for by name is looked for, whatever this CPU could do without it: where nothing is
# there, each of its packages is named.
@pytest.mark.parametrize("group", sorted(packages_of_groups()))
def test_named_group_is_wanted(machine, group):
    if group in ("arm", "oldcpu", "avx512") and platform.machine() != "x86_64":
        pytest.skip("emulates another CPU on x86-64 only")
    (machine.path / "apt-get").symlink_to(APT)
    done = machine.set_up(group, ATTNSCOPE_NO_INSTALL="1")
    assert packages_of_groups()[group] <= set(re.findall(r"[\w.+-]+", done.stderr))


# Guards that test.sh wants the emulator of AVX-512 on every CPU: one that has it boots a guest too.
@pytest.mark.skipif(platform.machine() != "x86_64", reason="emulates another CPU on x86-64 only")
def test_emulator_is_wanted(machine):
    (machine.path / "apt-get").symlink_to(APT)
    done = machine.set_up("avx512", script="test.sh", ATTNSCOPE_NO_INSTALL="1")
    assert done.returncode == 2 and " Run: " in done.stderr
    assert " bochs" in done.stderr
