"""Which loops are modelled: levels, the CPUs that stand for them, compilers and how they are called."""

import json
import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from testrunner.builds import MESON, ROOT, SYSROOT
from testrunner.levels import required

# Functions whose hottest loop is modelled, and whether it is a product (nothing but FMAs and their operands).
PRODUCTS = ("tile_new", "tile_add", "tile_scores", "tile_values", "fma_peak")
FUNCTIONS = {**dict.fromkeys(PRODUCTS, True), "exponentials_": False, "softmax": False}


class TargetError(Exception):
    """A level cannot be compiled here; the text says why."""


@dataclass(frozen=True)
class Level:
    """An ISA level, its architecture, and CPUs whose model in LLVM 19 is to be believed."""

    name: str
    triple: str
    cpus: tuple[str, ...]


# Not modelled: sapphirerapids (its FMA latency of zmm is unlike all others'), cortex-a76 and later (copies of
# cortex-a57).
CPUS = {
    "avx2": ("znver3", "znver4"),
    "avx512": ("znver4", "icelake-server", "skylake-avx512"),
    "neon": ("neoverse-n1", "neoverse-v2", "apple-m1"),
}
TRIPLES = {"x86": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
# Every level that requires something of the CPU; scalar code has no vectors to model.
LEVELS = tuple(
    Level(name, TRIPLES[architecture], CPUS.get(name, ()))
    for architecture, levels in required().items()
    for name, needs in levels.items()
    if needs
)
# One old model for all of Apple's cores: an FMA by lane has the pipes and the latency of a multiply there, 3 and 2,
# one of whole vectors 2 and 8. Its loops are judged each by its own kind of FMA, and not against each other.
TWO_RATES = ("apple-m1",)
COMPILERS = ("gcc", "clang")

# Only kernels are compiled of these trees, and only to assembly: they are there for the flags.
_OPTIONS = ["--buildtype=release", *(f"-D{part}=disabled" for part in ("tests", "bench", "hwloc", "openmp"))]
_CROSS = ["--cross-file", "scripts/cross/aarch64.ini", "--cross-file", str(SYSROOT / "machine.ini")]


def _run(command: list, what: str, env: dict | None = None) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env={**os.environ, **(env or {})})
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        why = next(
            (line for line in lines if "ERROR" in line or "error:" in line), (lines or ["no output"])[-1]
        )
        raise TargetError(f"{what}: {why.strip()}")


def _commands(directory: Path, arguments: list, compilers: tuple[str, str]) -> list[dict]:
    """The compile commands of a tree, configured here if it is not yet."""
    if not (directory / "build.ninja").exists():
        shutil.rmtree(directory, ignore_errors=True)
        env = {"CC": compilers[0], "CXX": compilers[1]}
        _run([MESON, "setup", *_OPTIONS, *arguments, directory], f"configure {directory.name}", env)
    _run(["ninja", "-C", directory, "build.ninja"], f"configure {directory.name}")
    return json.loads((directory / "compile_commands.json").read_text())


def _is_native(level: Level) -> bool:
    machine = {"arm64": "aarch64"}.get(os.uname().machine, os.uname().machine)
    return level.triple.startswith(machine)


def _entry(level: Level, compiler: str) -> dict:
    if _is_native(level):
        if not shutil.which(compiler):
            raise TargetError(f"needs {compiler}")
        pair = {"gcc": ("gcc", "g++"), "clang": ("clang", "clang++")}[compiler]
        commands = _commands(ROOT / f"build-mca-{compiler}", [], pair)
    elif level.triple != TRIPLES["arm64"]:
        raise TargetError("needs an x86-64 machine")
    elif not (SYSROOT / "machine.ini").exists():
        raise TargetError("needs the arm64 packages of Debian or Ubuntu (scripts/setup.sh arm)")
    else:
        # clang compiles what the cross gcc does, with the same flags; it ignores those it does not know.
        commands = _commands(ROOT / "build-mca-arm", _CROSS, ("gcc", "g++"))
    ending = f"kernels/{level.name}.c"
    return next(entry for entry in commands if entry["file"].endswith(ending))


def compile_command(words: list[str], level: Level, compiler: str, native: bool, output: Path) -> list[str]:
    """The command that makes the object, changed to write assembly; nothing that acts on code is left out."""
    cache = words[:1] if Path(words[0]).name == "ccache" else []
    words = words[len(cache) :]
    kept, skip = [], False
    for word in words:
        if not skip and word not in ("-MD", "-MQ", "-MF", "-o", "-c"):
            kept.append(word)
        skip = not skip and word in ("-MQ", "-MF", "-o")
    if compiler == "clang" and not native:
        if not shutil.which("clang"):
            raise TargetError("needs clang")
        kept = ["clang", f"--target={level.triple}", *kept[1:]]
    return [*cache, *kept, "-w", "-S", "-o", str(output)]


def assembly(level: Level, compiler: str) -> str:
    """What the compiler makes of a level's kernels, with the flags of a release build."""
    entry = _entry(level, compiler)
    directory = Path(entry["directory"])
    output = directory / f"{level.name}-{compiler}.s"
    words = shlex.split(entry["command"])
    command = compile_command(words, level, compiler, _is_native(level), output)
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    if done.returncode:
        raise TargetError(f"{compiler} for {level.name}: {done.stderr.strip().splitlines()[0]}")
    return output.read_text()
