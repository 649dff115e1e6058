"""What the programs in scripts/ have in common: which Python they run with, and how they end."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

# Names the Python of an installed attnscope.
PYTHON_VARIABLE = "ATTNSCOPE_PYTHON"


def _use_chosen_python(name: str, script: str) -> None:
    """Starts again with the Python that the user names; in a source tree that is what .venv is made from instead."""
    python = os.environ.pop(PYTHON_VARIABLE, "")  # taken away, so that it is followed once
    if not python or os.path.isdir(os.path.join(os.path.dirname(script), "attnscope_py")):
        return
    try:
        os.execvp(python, [python, script, *sys.argv[1:]])
    except OSError as error:
        sys.stderr.write(f"{name}: cannot run {PYTHON_VARIABLE}={python}: {error.strerror}\n")
        sys.exit(2)


def one_line(text: object) -> str:
    """Text for a message: control characters, which could be anything in a file, made visible."""
    return "".join(c if c.isprintable() else "?" for c in str(text))


def _how_to_install() -> str:
    """The commands that bring the packages, which can be pasted as they are, in any directory."""
    above = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    setup = os.path.join(above, "setup.sh")
    if os.path.exists(setup):
        # A source tree: its builds run reports with the Python of its .venv.
        return f"{shlex.quote(setup)} python, which makes .venv for attnscope built in this tree"
    requirements = shlex.quote(os.path.join(above, "requirements.txt"))
    python = shlex.quote(sys.executable)
    if sys.prefix != sys.base_prefix:
        return f"{python} -m pip install -r {requirements}"
    # Never into the system's Python: Debian and others refuse that.
    place = os.path.join(os.path.expanduser("~"), ".local", "share", "attnscope", "venv")
    venv = shlex.quote(place)
    return (
        f"{python} -m venv {venv} && {venv}/bin/pip install -r {requirements} && "
        f"export {PYTHON_VARIABLE}={venv}/bin/python"
    )


class Program:
    """What a program says, by its name, and how: errors in one line, output that has arrived."""

    def __init__(self, name: str):
        self.name = name

    def fail(self, text: object, code: int = 2) -> NoReturn:
        print(f"{self.name}: {one_line(text)}", file=sys.stderr)
        raise SystemExit(code)

    def warn(self, text: object) -> None:
        print(f"{self.name}: warning: {one_line(text)}", file=sys.stderr)

    def print_out(self, text: str) -> None:
        """Writes to standard output and sees that it arrives, whether Python buffers or not."""
        try:
            sys.stdout.flush()
            rest = memoryview(text.encode(sys.stdout.encoding or "utf-8", sys.stdout.errors or "strict"))
            # Unbuffered, a write takes what fits and says how much that was; the next one says why no more does.
            while rest:
                rest = rest[sys.stdout.buffer.write(rest) or 0 :]
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise  # the reader of a pipe has gone: no error of ours
        except OSError as error:
            # What is left in the buffer would fail once more at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self.fail(f"cannot write standard output: {error.strerror}")

    def check_python(self) -> None:
        """Fails when this Python is older than the programs need: whatever python3 is started, it is told."""
        if sys.version_info < (3, 11):  # noqa: UP036
            version = f"{sys.version_info.major}.{sys.version_info.minor}"
            self.fail(
                f"{sys.executable} is Python {version}; 3.11 or newer is needed: set {PYTHON_VARIABLE} to one"
            )

    @contextlib.contextmanager
    def packages(self) -> Iterator[None]:
        """Around what needs packages: where one is missing, says so and how to install it."""
        try:
            yield
        except ImportError as error:
            self.fail(
                f"the Python package {error.name} is not installed for {sys.executable}; run: {_how_to_install()}"
            )

    def parser(self, **options: Any) -> argparse.ArgumentParser:
        """Of the program's arguments: errors are one line, help arrives or fails, and examples end it."""
        program = self
        given = set()

        class Once(argparse.Action):
            """Stores a value, the only one: of two, argparse would take the last without a word."""

            def __call__(
                self,
                parser: argparse.ArgumentParser,
                namespace: argparse.Namespace,
                values: Any,
                option_string: str | None = None,
            ) -> None:
                if option_string and option_string in given:
                    parser.error(f"more than one value given for {option_string}")
                given.add(option_string)
                setattr(namespace, self.dest, values)

        class Parser(argparse.ArgumentParser):
            def __init__(self, **options: Any) -> None:
                super().__init__(**options)
                self.register("action", None, Once)

            def print_help(self, file: object = None) -> None:
                program.print_out(self.format_help())  # argparse would pass over what does not arrive

            def error(self, message: str) -> NoReturn:
                program.fail(f"{message}; see {program.name} --help")

        return Parser(
            prog=self.name,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            **options,
        )

    def run(self, main: Callable[[Sequence[str]], int]) -> NoReturn:
        """Runs `main` with the command line and ends the program with its exit code."""
        try:
            if sys.stdout is None:
                self.fail("standard output is closed")
            self.check_python()
            code = main(sys.argv[1:])
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # what there was to interrupt is done
            sys.exit(code)
        except BrokenPipeError:
            # The reader of a pipe has gone; nobody is left to tell.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)


def start(script: str, module: str) -> NoReturn:
    """Runs the program of a module of this package, which is loaded only here: Ctrl-C may come before that is done."""
    name = os.path.basename(script).replace("-", " ")
    _use_chosen_python(name, os.path.realpath(script))
    # As exceptions, so that temporary files are removed on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        program = importlib.import_module(f".{module}", __package__)
        program.PROGRAM.run(program.main)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stderr.write(f"{name}: interrupted\n")
        sys.exit(130)
