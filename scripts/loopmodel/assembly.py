"""Finds loops in a compiler's assembly, and what they do to the stack."""

import re
from dataclasses import dataclass

_LABEL = re.compile(r"^([.\w$]+):")
# A jump within a function goes to a local label: .L62 of gcc, .LBB19_3 of clang. On AArch64 gcc writes
# "bne" what clang writes "b.ne".
_JUMP = re.compile(r"^(?:j\w+|b(?:\.?\w\w)?|cbn?z\s+\w+,|tbn?z\s+\w+,\s*#?\w+,)\s+(\.L\w+)$")
_FMA = re.compile(r"^(?:vfn?madd\w*ps|fml[as]\s+v\w+\.4s)\b")
# (%base, %index, scale) of x86, the base or the index missing; [base of AArch64
_ADDRESS = re.compile(r"\((?:%(\w+))?(?:, ?%(\w+))?|\[(\w+)")
# An instruction that puts a whole number into a register: its name, what it reads, the register.
_X86_SET = re.compile(r"^(?P<name>\w+) (?P<read>.*), ?%(?P<target>(?:[er]\w\w|r\d+d?))$")
_ARM_SET = re.compile(r"^(?P<name>\w+) (?P<target>[xw]\d+), (?P<read>[^%]*)$")
_NO_SET = re.compile(r"^(?:cmp|test|tst|cmn|st|cb|tb|bt)")
_X86_COMPUTE = re.compile(r"^(?:lea|add|sub|and|cmov\w+|xchg)q?$")
_ARM_COMPUTE = re.compile(r"^(?:mov|add|sub|and)$")
_PUSH_OR_POP = re.compile(r"^(?:push|pop)[fqw]*\b")


class AssemblyError(Exception):
    """The assembly is not what is expected of the kernels; the text says where."""


@dataclass(frozen=True)
class Loop:
    """An innermost loop: the function it is in, its instructions from its label to the jump back."""

    function: str
    instructions: tuple[str, ...]
    stack: tuple[str, ...]  # those instructions that read or write the stack

    @property
    def fma_instructions(self) -> list[str]:
        return [line for line in self.instructions if _FMA.match(line)]

    @property
    def fmas(self) -> int:
        return len(self.fma_instructions)

    @property
    def stack_stores(self) -> tuple[str, ...]:
        """Of the accesses to the stack those that write: AT&T syntax has the target last."""
        return tuple(line for line in self.stack if line.endswith(")") or line.startswith(("st", "push")))


def _statement(line: str) -> str:
    """The line without comment and surrounding space; empty for a directive or a comment."""
    line = line.split("//")[0]
    line = re.sub(r"(^|\s)#.*", "", line) if not re.search(r"#-?(\d|:)", line) else line
    line = line.strip()
    return "" if line.startswith((".", "#")) and not _LABEL.match(line) else line


def functions(text: str, name: str) -> dict[str, list[str]]:
    """Statements of the function and of the copies that gcc specialises (name.constprop.0)."""
    found = {}
    wanted = re.compile(rf"{re.escape(name)}(\.(constprop|isra|part|cold)\.\d+)*")
    current = None
    for line in text.splitlines():
        statement = _statement(line)
        if match := _LABEL.match(statement):
            if wanted.fullmatch(match[1]):
                current = found.setdefault(match[1], [])
            elif current is not None and match[1].startswith(".L"):
                current.append(match[1] + ":")
        elif line.split()[:1] == [".size"]:
            current = None
        elif current is not None and statement:
            current.append(re.sub(r"\s+", " ", statement))
    return {key: lines for key, lines in found.items() if ".cold" not in key}


def innermost_loops(function: str, lines: list[str]) -> list[Loop]:
    """Loops of a function that hold no other loop."""
    labels = {line[:-1]: at for at, line in enumerate(lines) if line.endswith(":")}
    spans = []
    for at, line in enumerate(lines):
        jump = _JUMP.match(line)
        first = labels.get(jump[1], at) if jump else at
        # A block behind the function's end that jumps back into it makes no loop.
        if first < at and not any(line.startswith("ret") for line in lines[first:at]):
            spans.append((first, at))
    loops = []
    for first, last in spans:
        if any((a, b) != (first, last) and first <= a and b <= last for a, b in spans):
            continue
        body = [line for line in lines[first : last + 1] if not line.endswith(":")]
        pointers = _stack_pointers(lines[:first], {"rsp", "sp"})
        pointers |= _stack_pointers(body, pointers)  # of the turn before
        stack = []
        for line in body:
            if _accesses(line, pointers):
                stack.append(line)
            pointers = _stack_pointers([line], pointers)
        loops.append(Loop(function, tuple(body), tuple(stack)))
    return loops


def _accesses(line: str, pointers: set[str]) -> bool:
    """Whether an instruction reads or writes the stack, into which these registers point; lea only computes."""
    if line.startswith("lea"):
        return False
    names = {name for address in _ADDRESS.findall(line) for name in address if name}
    return bool(_PUSH_OR_POP.match(line) or pointers & names)


def _whole(register: str) -> str:
    """The 64 bits that a register of 32 is a part of: writing it clears the rest."""
    return re.sub(
        r"^(?:e(?=\w\w$)|w(?=\d))", lambda found: {"e": "r", "w": "x"}[found[0]], register
    ).removesuffix("d")


def _stack_pointers(lines: list[str], pointers: set[str]) -> set[str]:
    """Registers that point into the stack after these lines, in the order in which they stand: those given, a frame's,
    and what is computed from them. One that another number is put into does so no more."""
    pointers = set(pointers)
    for line in lines:
        x86 = _X86_SET.match(line)
        found = x86 or _ARM_SET.match(line)
        if not found or _NO_SET.match(line):
            continue
        target, read = _whole(found["target"]), set(re.findall(r"\w+", found["read"]))
        if x86:
            copies = (
                found["name"] == "movq" and "(" not in found["read"]
            )  # else loaded from there, no address of it
            computes = copies or _X86_COMPUTE.match(found["name"])
            if not copies and found["name"] != "leaq":
                read.add(target)  # adds to what it holds
        else:
            computes = _ARM_COMPUTE.match(found["name"])
        if computes and read & pointers:
            pointers.add(target)
        elif target not in ("rsp", "sp"):
            pointers.discard(target)
    return pointers


def hottest_loops(text: str, name: str) -> list[Loop]:
    """Of each copy of the function, the innermost loop with the most FMAs, which has to be straight code."""
    copies = functions(text, name)
    if not copies:
        raise AssemblyError(f"no function {name}")
    found = []
    for copy, lines in copies.items():
        loop = max(innermost_loops(copy, lines), key=lambda loop: loop.fmas, default=None)
        if loop is None or loop.fmas == 0:
            raise AssemblyError(f"{copy}: no loop with FMAs")
        jumps = [line for line in loop.instructions[:-1] if _JUMP.match(line) or line.startswith("call")]
        if jumps:
            raise AssemblyError(f"{copy}: a jump inside the loop: {jumps[0]}")
        found.append(loop)
    return found
