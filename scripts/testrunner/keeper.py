"""keeper.py RUNNER WORD... : runs a command, and ends all that it started as soon as it ends.

Meson starts each test in a session of its own, so the process group of a command does not hold what it started;
and what outlives its parent belongs to nobody that could be asked. This process therefore takes in every
descendant that loses its parent, and with the command's end, whatever the reason, kills all that are left.

SIGTERM asks the command to end, which gets GRACE seconds for it (Meson writes which tests it had to end), and so
does the death of the runner, the process RUNNER. The exit status is the command's; 127 if it cannot be started.
"""

import ctypes
import os
import resource
import signal
import sys
import time
from pathlib import Path

GRACE = 10.0
LONGEST = 20.0  # seconds that killed processes get to be gone; one that the kernel holds cannot be waited for
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # of linux/prctl.h
ASKED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}


def take_in(runner: int) -> None:
    """Makes orphans of this process's descendants its children, and the death of the runner a SIGTERM."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        for option, value in ((PR_SET_CHILD_SUBREAPER, 1), (PR_SET_PDEATHSIG, signal.SIGTERM)):
            if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0):
                sys.exit(f"prctl {option}: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != runner:  # it died before it could be watched
        sys.exit(128 + signal.SIGTERM)


def descendants(process: int) -> list[int]:
    """Every living or dead process below this one, as /proc shows them."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in parentheses, may hold anything; the state and the parent follow it.
            parent = int(entry.read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        children.setdefault(parent, []).append(int(entry.parent.name))
    found, waiting = [], [process]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def reap(command: int) -> int | None:
    """Collects what has ended; the command's wait status if it is among them."""
    status = None
    while True:
        try:
            pid, ended = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == command:
            status = ended


def end(command: int) -> int | None:
    """Kills all descendants; the wait status of the command if it had not ended before."""
    status = None
    limit = time.monotonic() + LONGEST
    while time.monotonic() < limit:
        ended = reap(command)
        status = ended if ended is not None else status
        left = descendants(os.getpid())
        if not left:
            break
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        time.sleep(0.01)
    return status


def start(words: list[str], mask: set) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python
                signal.signal(ignored, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.execvp(words[0], words)
        except OSError as error:
            os.write(2, f"cannot start {words[0]}: {error.strerror}\n".encode())
        finally:
            os._exit(127)
    return pid


def wait(command: int) -> int | None:
    """The command's wait status; None if it did not end when it was asked to."""
    status, asked_at = None, None
    while status is None:
        if asked_at is None:
            arrived = signal.sigwait({*ASKED, signal.SIGCHLD})
        else:
            got = signal.sigtimedwait({signal.SIGCHLD}, max(0.0, asked_at + GRACE - time.monotonic()))
            if got is None:
                return None
            arrived = signal.SIGCHLD
        if arrived in ASKED:
            asked_at = time.monotonic()
            os.kill(command, signal.SIGTERM)
        status = reap(command)
    return status


def main(arguments: list[str]) -> int:
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*ASKED, signal.SIGCHLD})
    take_in(int(arguments[0]))
    command = start(arguments[1:], mask)
    status = wait(command)
    killed = end(command)
    status = status if status is not None else killed
    code = os.waitstatus_to_exitcode(status) if status is not None else -signal.SIGKILL
    if code < 0:  # end by the same signal, and leave no memory image of this process
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
