"""Runs a suite's commands: everything into one log, each in its own process group, none without an end."""

import os
import signal
import subprocess
import time
from pathlib import Path


class CommandError(Exception):
    """A command that the rest of the suite depends on failed; the text says which and how."""


class Commands:
    """Commands of one suite, sharing a log and a deadline (seconds from now)."""

    def __init__(self, root: Path, log: Path, seconds: float):
        self.root = root
        self.log = log
        self.deadline = time.monotonic() + seconds
        self.process: subprocess.Popen | None = None  # the one that runs
        log.write_text("")

    def run(self, arguments: list, env: dict | None = None, cwd: Path | None = None) -> int:
        """Exit status of the command, or -1 if it was ended at the suite's deadline."""
        words = [str(a) for a in arguments]
        shown = " ".join([f"{k}={v}" for k, v in (env or {}).items()] + words)
        with self.log.open("a") as log:
            log.write(f"\n$ {shown}\n")
            log.flush()
            try:
                process = subprocess.Popen(
                    words,
                    cwd=cwd or self.root,
                    env={**os.environ, **(env or {})},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                log.write(f"cannot start {words[0]}: {error.strerror}\n")
                return 127
            self.process = process
            try:
                return process.wait(max(1.0, self.deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.write(f"\nended: the suite's time is up ({shown})\n")
                return -1
            finally:
                # Also what the command left running: it would disturb the suites that follow.
                _kill(process)
                process.wait()
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
            _kill(process)

    def beside(self, log: Path) -> "Commands":
        """Commands with a log of their own and the same deadline, for what runs at the same time."""
        own = Commands(self.root, log, 0.0)
        own.deadline = self.deadline
        return own

    def append(self, log: Path) -> None:
        """Puts another log at the end of this one."""
        text = log.read_text(errors="replace")
        with self.log.open("a") as file:  # one write, for several threads
            file.write(f"\n{log.name}:\n{text}")

    def tail(self, lines: int = 25) -> str:
        """The end of the log, for the terminal."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def _kill(process: subprocess.Popen) -> None:
    """Ends a process and what it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def output_of(arguments: list) -> str:
    """Standard output of a short command; empty if it cannot run or fails."""
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
