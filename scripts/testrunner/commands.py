"""Runs a suite's commands: everything into one log, each with all that it starts under a keeper, none without an
end."""

import os
import subprocess
import sys
import time
from pathlib import Path

KEEPER = Path(__file__).with_name("keeper.py")
# Seconds after which a keeper that was told to end its command has done so: its grace, its own limit, a busy machine.
KEEPER_SECONDS = 60.0
# Keepers that run, and whether no more may be started. A signal's handler reads them: hence no lock.
_running: set[subprocess.Popen] = set()
_stopping: list[bool] = []


class CommandError(Exception):
    """A command that the rest of the suite depends on failed; the text says which and how."""


class Commands:
    """Commands of one suite, sharing a log and a deadline (seconds from now)."""

    def __init__(self, root: Path, log: Path, seconds: float):
        self.root = root
        self.log = log
        self.deadline = time.monotonic() + seconds
        self.process: subprocess.Popen | None = None  # the one that runs
        self.failed: list[str] = []  # what was appended of parts that failed
        log.write_text("")

    def run(self, arguments: list, env: dict | None = None, cwd: Path | None = None) -> int:
        """Exit status of the command, or -1 if it was ended at the suite's deadline."""
        words = [str(a) for a in arguments]
        shown = " ".join([f"{k}={v}" for k, v in (env or {}).items()] + words)
        with self.log.open("a") as log:
            log.write(f"\n$ {shown}\n")
            log.flush()
            process = keep(words, cwd or self.root, {**os.environ, **(env or {})}, log)
            self.process = process
            at_least = time.monotonic() + 1.0
            try:
                while time.monotonic() < max(at_least, self.deadline):
                    try:
                        return process.wait(1.0)
                    except subprocess.TimeoutExpired:
                        pass
                log.write(f"\nended: the suite's time is up ({shown})\n")
                return -1
            finally:
                release(process)
                self.process = None

    def need(self, what: str, arguments: list, env: dict | None = None, cwd: Path | None = None) -> None:
        """Like run, for a command that has to succeed."""
        status = self.run(arguments, env, cwd)
        if status:
            raise CommandError(f"{what}: " + ("out of time" if status == -1 else f"exit status {status}"))

    def end(self) -> None:
        """Ends the command that runs, from another thread than its own; none is no fault."""
        process = self.process
        if process is not None:
            process.terminate()

    def beside(self, log: Path) -> "Commands":
        """Commands with a log of their own and the same deadline, for what runs at the same time."""
        own = Commands(self.root, log, 0.0)
        own.deadline = self.deadline
        return own

    def append(self, log: Path, failed: bool = False) -> None:
        """Puts another log at the end of this one; `failed`: its end is what tail() shows."""
        text = f"{log.name}:\n{log.read_text(errors='replace')}"
        with self.log.open("a") as file:  # one write, for several threads
            file.write(f"\n{text}")
        if failed:
            self.failed.append(text)

    def tail(self, lines: int = 25) -> str:
        """The end of the log, for the terminal; what is wrong with it if it cannot be read.

        Where parts that ran side by side failed, the end of each of them: the last in the log may be another.
        """
        if self.failed:
            ends = ([text.splitlines()[0], *text.splitlines()[1:][-lines:]] for text in self.failed)
            return "\n\n".join("\n".join(end) for end in ends)
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError as error:
            return f"{self.log}: {error.strerror}"


def keep(words: list[str], cwd: Path, env: dict, output) -> subprocess.Popen:
    """Starts a command under a keeper, which ends all of its descendants with it (keeper.py)."""
    if _stopping:
        raise CommandError("interrupted")
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", KEEPER, str(os.getpid()), *words],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    _running.add(process)
    if _stopping:  # since then
        process.terminate()
    return process


def release(process: subprocess.Popen) -> None:
    """Ends what keep() started, if it runs, and waits until nothing is left of it."""
    try:
        if process.poll() is None:
            process.terminate()
        process.wait(KEEPER_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    finally:
        _running.discard(process)


def end_all() -> None:
    """Ends every command, in whatever thread it was started, and refuses new ones: the run is over."""
    _stopping.append(True)
    for process in list(_running):
        process.terminate()


def output_of(arguments: list) -> str:
    """Standard output of a short command; empty if it cannot run or fails."""
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
