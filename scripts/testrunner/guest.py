"""Runs test programs on a CPU that this machine is not: Linux in Bochs, on a processor with AVX-512.

An image is a Debian kernel and a file system in memory: busybox, the programs and their libraries. Its first
process runs one program after another and writes what they print to the serial port, between lines of its
own, which Bochs keeps in a file. What that file lacks has failed, whatever the reason.

    PYTHONPATH=scripts .venv/bin/python -m testrunner.guest build-dev/tests/test_dispatch [VARIABLE=VALUE]...
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from .commands import CommandError, keep, release
from .results import FAILED, Case, merged, parse_tap

ROOT = Path(__file__).resolve().parents[2]
KERNEL = ROOT / "build-kernel-amd64" / "vmlinuz"
BUSYBOX = Path("/bin/busybox")
FILES = (ROOT / "docs" / "numerics.md",)  # what the programs read, at the same place in the guest
BOOT_FILES = (
    Path("/usr/lib/ISOLINUX/isolinux.bin"),
    Path("/usr/lib/syslinux/modules/bios/ldlinux.c32"),
)
ROMS = (Path("/usr/share/bochs/BIOS-bochs-latest"), Path("/usr/share/bochs/VGABIOS-lgpl-latest"))
MODEL = "corei7_skylake_x"  # the oldest one with AVX-512: F, CD, BW, DQ, VL and nothing newer
MEMORY_MB = 512

# Bochs 2.7 reports an XSAVE area that Linux finds wrong, and Linux then turns AVX off: hence noxsaves and
# clearcpuid. no5lvl, and fsrm: the newer models do not boot with them. The rest only makes booting shorter.
KERNEL_ARGUMENTS = (
    "console=ttyS0,115200 quiet loglevel=1 noxsaves clearcpuid=fsrm,pku,xsavec no5lvl nokaslr mitigations=off"
    " tsc=reliable lpj=1000000 cryptomgr.notests"
    " initcall_blacklist=load_system_certificate_list,crypto_algapi_init,cubictcp_register"
)
# What the guest writes. A program's output cannot look like it by chance.
MARK = "@guest"


@dataclass(frozen=True)
class Guest:
    """What one boot runs: the programs, their environment, and the most seconds for each.

    They are the guest's: its clock is that of a processor with 3.6 GHz, so that one takes about a minute.
    """

    programs: list[Path]
    env: dict
    seconds: int = 5
    model: str = MODEL


def impossible() -> str:
    """Why no guest can be started here; empty if it can."""
    missing = [name for name in ("bochs", "xorriso", "cpio", "ldd") if not shutil.which(name)]
    missing += [str(path) for path in (*BOOT_FILES, *ROMS, BUSYBOX, KERNEL) if not path.exists()]
    return (
        f"needs what scripts/setup.sh avx512 installs on Debian: no {', '.join(missing)}" if missing else ""
    )


class Stop:
    """When guests have to be ended: at a deadline (of time.monotonic), or at once."""

    def __init__(self, deadline: float):
        self.deadline = deadline

    def now(self) -> None:
        self.deadline = 0.0

    def reached(self) -> bool:
        return time.monotonic() > self.deadline


# ---- the image ---------------------------------------------------------------------------------------------


def libraries(program: Path) -> list[Path]:
    """The shared libraries of a program with its loader; none for a static one."""
    done = subprocess.run(["ldd", program], capture_output=True, text=True)
    if "not found" in done.stdout:
        raise CommandError(f"{program.name}: a library is missing: {done.stdout.strip()}")
    return [Path(found) for found in re.findall(r"(?:=> |^\s*)(/\S+)", done.stdout, re.MULTILINE)]


def first_process(guest: Guest) -> str:
    """The script that the kernel starts. It ends the machine when it is through."""
    exports = "".join(f"export {name}={shlex.quote(str(value))}\n" for name, value in guest.env.items())
    runs = "".join(f"run {shlex.quote(path.name)}\n" for path in guest.programs)
    return f"""#!/bin/busybox sh
B=/bin/busybox
$B mount -t proc proc /proc; $B mount -t sysfs sys /sys; $B mount -t devtmpfs dev /dev
$B stty -F /dev/ttyS0 -opost
exec >/dev/ttyS0 2>&1 </dev/null
echo 1 >/proc/sys/vm/overcommit_memory
export HOME=/tmp
{exports}cd /tests
echo '{MARK} begins'
run() {{
    echo "{MARK} starts $1"
    $B timeout -s KILL {guest.seconds} ./$1
    status=$?
    $B kill -9 -1 # what it left running: everything but this process
    echo; echo "{MARK} ended $1 $status $($B cut -d ' ' -f 1 /proc/uptime)"
}}
{runs}echo '{MARK} ends'
$B sleep 1
$B poweroff -f
"""


def make_image(place: Path, guest: Guest) -> Path:
    """The image of a guest, in `place`, which is an empty directory."""
    if not guest.programs:
        raise CommandError("guest: no program to run")
    root, iso = place / "root", place / "iso"
    for name in ("bin", "proc", "sys", "dev", "tmp", "tests"):
        (root / name).mkdir(parents=True)
    iso.mkdir()
    shutil.copy(BUSYBOX, root / "bin" / "busybox")
    for program in guest.programs:
        if not program.is_file():
            raise CommandError(f"guest: no program {program}")
        shutil.copy(program, root / "tests" / program.name)
        for library in libraries(program):
            copy = root / library.relative_to("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, copy)
    for file in FILES:
        copy = root / file.relative_to("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    (root / "init").write_text(first_process(guest))
    (root / "init").chmod(0o755)
    for path in (*BOOT_FILES, KERNEL):
        shutil.copy(path, iso)
    (iso / "isolinux.cfg").write_text(
        f"PROMPT 0\nTIMEOUT 1\nDEFAULT it\nLABEL it\n KERNEL /vmlinuz\n APPEND initrd=/initrd {KERNEL_ARGUMENTS}\n"
    )
    image = place / "guest.iso"
    pack = "cd ../root && find . | cpio -o -H newc --quiet >../iso/initrd"
    make = ["xorriso", "-as", "mkisofs", "-quiet", "-o", image, "-b", "isolinux.bin", "-c", "boot.cat"]
    make += ["-no-emul-boot", "-boot-load-size", "4", "-boot-info-table", iso]
    for command in (["sh", "-c", pack], make):
        done = subprocess.run(command, cwd=iso, capture_output=True, text=True)
        if done.returncode:
            raise CommandError(f"guest: {command[0]}: {done.stderr.strip()[-300:]}")
    return image


# ---- the emulator ------------------------------------------------------------------------------------------


def bochs_command(place: Path, image: Path, model: str) -> list[str]:
    """The emulator's command. Debian builds it with a debugger, which has to be told to go on, and with no
    display that needs nothing: `term` draws on a terminal that it makes and nobody reads, and stops for ever
    when that is full. One update a second of the guest does not fill it; the usual ten of the host's do."""
    (place / "commands").write_text("c\n")
    (place / "bochsrc").write_text(f"""config_interface: textconfig
display_library: term
romimage: file={ROMS[0]}
vgaromimage: file={ROMS[1]}
cpu: model={model}, count=1, ips=50000000, reset_on_triple_fault=0
memory: guest={MEMORY_MB}, host={MEMORY_MB}
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path="{image}", status=inserted
boot: cdrom
vga: update_freq=1, realtime=0
clock: sync=none, time0=utc
com1: enabled=1, mode=file, dev={place / "serial"}
log: {place / "log"}
panic: action=fatal
error: action=ignore
info: action=ignore
debug: action=ignore
""")
    return ["bochs", "-q", "-f", str(place / "bochsrc"), "-rc", str(place / "commands")]


def emulate(command: list, serial: Path, stop: Stop, grace: float = 10.0) -> str:
    """Runs the emulator until the guest has ended, died or run out of time. Returns what went wrong, or ''."""
    env = {name: value for name, value in os.environ.items() if name != "MALLOC_PERTURB_"}  # it dies of that
    env["TERM"] = "xterm"
    serial.touch()
    if not shutil.which(command[0]):
        return f"cannot start {command[0]}: there is no such program"
    with serial.with_name("console").open("w") as console:
        process = keep([str(word) for word in command], serial.parent, env, console)
    ended_at = None
    try:
        while True:
            try:
                status = process.wait(0.5)
                return "" if ended_at or has_ended(serial) else f"the emulator ended with status {status}"
            except subprocess.TimeoutExpired:
                pass
            now = time.monotonic()
            if ended_at is None and has_ended(serial):
                ended_at = now
            if ended_at is not None and now > ended_at + grace:
                return ""  # the guest said all it had to
            if b"Kernel panic" in serial.read_bytes():
                return "its kernel panicked"
            if stop.reached():
                return "its time is up"
    finally:
        release(process)


def has_ended(serial: Path) -> bool:
    return f"\n{MARK} ends".encode() in serial.read_bytes()


# ---- what came back ----------------------------------------------------------------------------------------


def program_cases(name: str, output: str, status: int, seconds: int) -> list[Case]:
    """Cases of a program that ended: its TAP lines, and its exit status where they do not explain it."""
    cases = parse_tap(name, output)
    if status == 137:
        cases.append(Case(name, FAILED, f"killed, after {seconds} s of the guest or for lack of memory"))
    elif status and not any(case.status == FAILED and case.name != name for case in cases):
        cases.append(Case(name, FAILED, f"exit status {status}"))
    return merged(name, cases)


def read_serial(text: str, names: list[str], seconds: int, fault: str) -> list[Case]:
    """Cases of a guest that was to run the programs `names`; `fault` is what emulate() says of it.

    Whatever is missing in the text is a failed case: the first program that did not end carries the reason.
    """
    text = text.replace("\r", "")
    blocks = re.findall(
        rf"^{MARK} starts (\S+)\n(.*?)(?:^{MARK} ended (\S+) (\d+)\b|\Z)", text, re.MULTILINE | re.DOTALL
    )
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "nothing")
    reason = f"{fault or 'the guest ended early'}; its last line: {last[:200]}"
    found = {name: (output, ended, status) for name, output, ended, status in blocks}
    cases: list[Case] = []
    for program in names:
        name = program.removeprefix("test_")
        output, ended, status = found.get(program, ("", "", ""))
        if ended == program:
            cases += program_cases(name, output, int(status), seconds)
        elif program in found:
            cases += merged(name, [*parse_tap(name, output), Case(name, FAILED, f"did not end: {reason}")])
        else:
            cases.append(Case(name, FAILED, f"was not started: {reason}"))
    if not re.search(rf"^{MARK} ends$", text, re.MULTILINE):
        cases.append(Case("guest", FAILED, reason))
    return cases


def run(guest: Guest, log: Path, stop: Stop) -> list[Case]:
    """Boots a guest; what it wrote is kept in `log`."""
    with tempfile.TemporaryDirectory(prefix="build-guest-", dir=ROOT) as directory:
        place = Path(directory)
        image = make_image(place, guest)
        fault = emulate(bochs_command(place, image, guest.model), place / "serial", stop)
        text = (place / "serial").read_text(errors="replace")
        said = place / "console"
        end = said.read_text(errors="replace")[-2000:] if fault and said.exists() else ""
    log.write_text(f"{end and 'the emulator: '}{end}\n{text}")
    return read_serial(text, [path.name for path in guest.programs], guest.seconds, fault)


def main(arguments: list[str]) -> int:
    """1 when a test failed, 2 when none could be run."""
    programs = [Path(word) for word in arguments if "=" not in word]
    env = dict(word.split("=", 1) for word in arguments if "=" in word)
    output = ROOT / "build-logs" / "guest.log"
    output.parent.mkdir(exist_ok=True)
    problem = impossible()
    if problem:
        print(f"guest: {problem}", file=sys.stderr)
        return 2
    try:
        found = run(Guest(programs, env), output, Stop(time.monotonic() + 3600))
    except CommandError as error:
        print(error, file=sys.stderr)
        return 2
    print(output.read_text(errors="replace"))
    return int(any(case.status == FAILED for case in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
