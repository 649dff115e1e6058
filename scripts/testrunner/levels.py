"""The ISA levels: what they are called and require (dispatch/isa.def), with which flags they are compiled
(kernels/meson.build), and which of them this machine runs."""

import ast
import json
import platform
import re
import subprocess
from pathlib import Path

from .commands import CommandError

ROOT = Path(__file__).resolve().parents[2]
ARCHITECTURES = ("x86", "arm64")


def names() -> list[str]:
    """All levels, worst to best."""
    return re.findall(r"^ISA\((\w+),", (ROOT / "dispatch" / "isa.def").read_text(), re.MULTILINE)


def features() -> dict[str, str]:
    """What a level may require: constant -> the feature's name, from dispatch/cpu.h."""
    return dict(
        re.findall(r'^ +X\((CPU_\w+), "(\w+)"\)', (ROOT / "dispatch" / "cpu.h").read_text(), re.MULTILINE)
    )


def required() -> dict[str, dict[str, set[str]]]:
    """Architecture -> level -> constants of features, in the order of isa.def; the levels of no architecture
    under all."""
    levels: dict[str, dict[str, set[str]]] = {architecture: {} for architecture in ARCHITECTURES}
    under = ARCHITECTURES
    for line in (ROOT / "dispatch" / "isa.def").read_text().splitlines():
        if architecture := re.match(r"#if.*\bATTN_ARCH_(\w+)", line):
            under = (architecture[1].lower(),)
        elif line.startswith("#endif"):
            under = ARCHITECTURES
        elif match := re.fullmatch(r"ISA\((\w+), (.+)\)", line):
            needs = set() if match[2] == "0" else set(match[2].split(" | "))
            unknown = needs - set(features())
            if unknown:
                raise ValueError(f"isa.def: {match[1]} requires {unknown}, which cpu.h does not know")
            for architecture in under:
                levels[architecture][match[1]] = needs
    return levels


def flags() -> dict[str, dict[str, list[str]]]:
    """Architecture -> level -> those of its compile flags that choose instructions (-m...)."""
    text = (ROOT / "kernels" / "meson.build").read_text()
    # What only some compilers know is asked for by a call.
    text = re.sub(r"cc\.get_supported_arguments\(([^)]*)\)", r"[\1]", text)
    found = {}
    for name in ("kernel_flags", *(f"kernel_flags_{architecture}" for architecture in ARCHITECTURES)):
        match = re.search(rf"^{name} = (\{{.*?^\}})", text, re.MULTILINE | re.DOTALL)
        if not match:
            raise ValueError(f"kernels/meson.build has no {name}")
        found[name] = ast.literal_eval(match[1])
    return {
        architecture: {
            level: [flag for flag in flags if flag.startswith("-m")]
            for level, flags in {**found["kernel_flags"], **found[f"kernel_flags_{architecture}"]}.items()
        }
        for architecture in ARCHITECTURES
    }


def here(program: Path) -> dict[str, str]:
    """Level -> why it cannot run on this machine, empty if it can: as this build of attnscope says, or that it does not
    have it."""
    done = subprocess.run([program, "info", "--json"], capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise CommandError(f"attnscope info: {done.stderr.strip()}")
    built = {level["name"]: level.get("reason") or "" for level in json.loads(done.stdout)["isa"]["levels"]}
    return {level: f"no part of a build for {platform.machine()}" for level in names()} | built
