"""Which instructions of an object a processor lacks: GNU's assembler is told the extensions that it has, is given
the disassembly, and refuses the others by name. It knows every instruction of every extension that the
disassembler knows, so nothing is let through because nobody thought of it.
"""

import re
import subprocess

from testrunner.levels import features as known_features

# What a level's flags and the assembler call the processor without any extension. Of control-flow enforcement ibt
# alone: endbr64, with which a distribution's gcc begins functions, has the bytes of a nop that every x86-64 knows.
# The assembler takes AArch64's counterparts (bti, paciasp) for the hints that they are.
BASE = {"x86": "generic64+ibt", "arm64": "armv8-a"}
# Prefixes of HLE and MPX, which the assembler takes for every processor's: it would ignore them. No level asks for
# them all the same.
_BEYOND = re.compile(r"^(?:\w+ )*(?:xacquire|xrelease|bnd) |.*%bnd\d")
# What the assembler calls a feature of dispatch/cpu.h: its name, but for these.
EXTENSIONS = {**known_features(), "CPU_NEON": "simd"}
_JUMP = re.compile(r"^((?:(?:bnd|notrack) )*(?:j\w+|call|loop\w*|xbegin)(?:,p[nt])?) +[0-9a-f]+$")


class Instruction(str):
    """One line of disassembly as an assembler reads it."""

    @property
    def mnemonic(self) -> str:
        return re.sub(r"^(?:(?:rep|repz|repnz|lock|bnd|notrack|\{\w+\}) )*", "", self).split()[0]

    @property
    def operands(self) -> str:
        return self[self.index(self.mnemonic) + len(self.mnemonic) :].strip()


def readable(line: str) -> str:
    """A disassembled instruction in the form that the assembler takes: without comments, targets of jumps here."""
    text = re.split(r"\s#\s|//", line)[0]
    text = re.sub(r"\b[0-9a-f]+ <[^>]*>", ".", text)
    text = _JUMP.sub(r"\1 .", text.strip())
    text = re.sub(r"^(?:data16 )+", "", text)  # of long nops, which are written shorter
    # Its bytes are those of "rep bsf", which gcc writes for every x86-64 where the operand is not zero. Which of the
    # two a compiler meant shows in what it may use (test_compile_commands.py).
    return re.sub(r"^tzcnt", "rep bsf", text)


def instructions(path, prefix="") -> list[Instruction]:
    """Everything in the object's text sections; `prefix` is that of the cross tools."""
    command = [f"{prefix}objdump", "-d", "--no-show-raw-insn", path]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = re.findall(r"^\s+[0-9a-f]+:\t(.*)$", done.stdout, re.MULTILINE)
    return [Instruction(readable(line)) for line in lines]


def lacking(code: list[str], architecture: str, features, prefix="") -> list[str]:
    """Those instructions, once each, that a processor with no more than these features of isa.def lacks.

    Bytes that the disassembler does not know are among them.
    """
    unknown = [line for line in code if line.startswith((".", "(bad)")) or _BEYOND.match(line)]
    extensions = "".join(f"+{EXTENSIONS[feature]}" for feature in sorted(features))
    command = [f"{prefix}as", f"-march={BASE[architecture]}{extensions}", "-o", "/dev/null", "-"]
    done = subprocess.run(command, input="\n".join(code) + "\n", capture_output=True, text=True)
    numbers = re.findall(r"^\{standard input\}:(\d+): Error:", done.stderr, re.MULTILINE)
    assert numbers or done.returncode == 0, f"{command}: {done.stderr}"
    return sorted({*unknown, *(code[int(number) - 1] for number in numbers)})
