"""The program under test, named by the environment variable ATTNSCOPE, and how tests run it."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "shared"))


@dataclasses.dataclass
class Outcome:
    """Exit code, standard output and standard error of one run."""

    code: int
    out: str
    err: str

    def values(self) -> dict[str, str]:
        """The `key: value` lines of standard output."""
        return dict(line.split(": ", 1) for line in self.out.splitlines() if ": " in line)


def program() -> str:
    path = os.environ.get("ATTNSCOPE")
    if not path:
        pytest.fail("the environment variable ATTNSCOPE names no program to test")
    return str(Path(path).resolve())


def execute(*arguments, **how) -> Outcome:
    """Runs the program; `env` adds variables, other keywords go to subprocess.run."""
    environment = {k: v for k, v in os.environ.items() if k not in ("ATTNSCOPE", "ATTNSCOPE_ISA")}
    environment |= how.pop("env", {})
    how = {"capture_output": True, "text": True, "timeout": 120, "stdin": subprocess.DEVNULL} | how
    done = subprocess.run([program(), *map(str, arguments)], env=environment, **how)
    return Outcome(done.returncode, done.stdout or "", done.stderr or "")


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """What `info --roofline` keeps goes to a directory of the tests, never into the user's."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def attnscope():
    """Runs attnscope with the arguments given and returns an Outcome."""
    return execute


@pytest.fixture(scope="session")
def levels() -> list[str]:
    """The ISA levels that this machine can run, worst first."""
    listed = json.loads(execute("info", "--json").out)["isa"]["levels"]
    return [level["name"] for level in listed if level["available"]]


@pytest.fixture
def refused(attnscope):
    """Runs attnscope and checks the contract of errors: exit 2, nothing on standard output, one line
    that begins with the command and holds each of `texts`; returns that line."""

    def check(arguments, *texts, **how):
        outcome = attnscope(*arguments, **how)
        assert outcome.code == 2, outcome
        assert outcome.out == ""
        assert outcome.err.startswith("attnscope")
        assert outcome.err.endswith("\n") and outcome.err.count("\n") == 1, outcome.err
        for text in texts:
            assert str(text) in outcome.err
        return outcome.err

    return check


class Tensors:
    """Saved Q, K and V in a directory, and the arguments of eval that name them."""

    def __init__(self, directory: Path):
        self.directory = directory

    def save(self, **arrays) -> None:
        for name, array in arrays.items():
            np.save(self.directory / f"{name}.npy", array)

    def path(self, name: str) -> Path:
        return self.directory / f"{name}.npy"

    def load(self, name: str) -> np.ndarray:
        return np.load(self.path(name))

    def arguments(self, *more, out: str = "out") -> list:
        named = [f"--{name}={self.path(name)}" for name in "qkv"]
        return ["eval", *named, f"--out={self.path(out)}", *more]

    def random(self, batch=2, heads=4, kv_heads=2, queries=33, keys=65, dim=16, value_dim=8, seed=1):
        """Saves and returns random q, k and v of these shapes."""
        rng = np.random.default_rng(seed)
        q = rng.standard_normal((batch, heads, queries, dim), dtype=np.float32)
        k = rng.standard_normal((batch, kv_heads, keys, dim), dtype=np.float32)
        v = rng.standard_normal((batch, kv_heads, keys, value_dim), dtype=np.float32)
        self.save(q=q, k=k, v=v)
        return q, k, v


@pytest.fixture
def tensors(tmp_path) -> Tensors:
    return Tensors(tmp_path)
