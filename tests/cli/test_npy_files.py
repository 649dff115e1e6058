"""Reading .npy files: every version and well-formed header, and no malformed one."""

import os
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
DATA = np.arange(6, dtype="<f4").tobytes()


def npy(header=HEADER, version=(1, 0), data=DATA, length=None) -> bytes:
    text = header.encode("latin1") + b"\n"
    length = len(text) if length is None else length
    length_bytes = length.to_bytes(2 if version[0] == 1 else 4, "little")
    return b"\x93NUMPY" + bytes(version) + length_bytes + text + data


@pytest.fixture
def read(attnscope, tensors):
    """Runs eval with these bytes as Q (2, 3), K and V being good; returns the Outcome."""
    tensors.save(k=np.ones((4, 3), "f"), v=np.ones((4, 5), "f"))

    def run(content: bytes):
        tensors.path("q").write_bytes(content)
        return attnscope(*tensors.arguments())

    return run


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize(
    "header",
    [
        HEADER,
        "{'shape': (2, 3), 'fortran_order': False, 'descr': '<f4'}",
        '{"descr":"<f4","fortran_order":False,"shape":(2,3,)}' + 50 * " ",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }",
        "  {'descr' : '=f4' , 'fortran_order' : False , 'shape' : ( 2 , 3 ) , }",
    ],
)
def test_well_formed(read, tensors, version, header):
    """Versions 1.0 to 3.0, keys in any order, either quotes, spaces, Python 2's long integers."""
    outcome = read(npy(header, version))
    assert outcome.code == 0, outcome.err
    np.testing.assert_array_equal(tensors.load("out"), np.ones((2, 5), "f"))


@pytest.mark.parametrize(
    "content,text",
    [
        (b"", "empty"),
        (b"\x93NUM", "within the header"),
        (b"\x93NUMPY\x01\x00\x40", "within the header"),
        (npy()[:40], "within the header"),
        (b"PK\x03\x04" + bytes(100), "not a .npy file"),
        (npy(version=(4, 0)), "version 4.0"),
        (npy(version=(0, 1)), "version 0.1"),
        (npy(version=(1, 1)), "version 1.1"),
        (npy(data=DATA[:-1]), "23 of 24 bytes"),
        (npy(data=b""), "truncated"),
        (npy(data=DATA + b"x"), "goes on after"),
        (npy(version=(2, 0), length=2**32 - 1), "header of 4294967295 bytes"),
        (npy(version=(2, 0), length=70000), "header of 70000 bytes"),
        (npy(length=60000), "within the header"),
    ],
)
def test_damaged(read, content, text):
    """Truncated, foreign and oversized files: the message names the file and what is wrong."""
    outcome = read(content)
    assert outcome.code == 2
    assert text in outcome.err and "q.npy" in outcome.err and outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    "header",
    [
        "",
        "[]",
        "{}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'shape': (2, 3)}",
        "{'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} x",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': [2, 3]}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3.0)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (6)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 9223372036854775808)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296, 4)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (" + 33 * "1, " + ")}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1000000000000)}",
        "{'descr': '<V2', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': 'f4', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f3', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '|f4', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4\\x00', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': __import__('os'), 'fortran_order': False, 'shape': (2, 3)}",
    ],
)
def test_malformed_header(read, tensors, header):
    """Headers that are no dictionary of the three keys, and shapes that lie or overflow, are refused
    in one line; nothing is allocated for what the file does not hold."""
    outcome = read(npy(header))
    assert outcome.code == 2
    assert "q.npy" in outcome.err and outcome.err.count("\n") == 1
    assert not tensors.path("out").exists()


@settings(
    max_examples=150,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(at=st.integers(0, 120), byte=st.integers(0, 255), keep=st.integers(1, 300))
def test_any_byte(read, at, byte, keep):
    """A byte changed or the end cut off: the file is read or refused in one line, never a crash."""
    content = bytearray(npy(HEADER + 40 * " "))
    content[at % len(content)] = byte
    outcome = read(bytes(content[:keep]))
    assert outcome.code in (0, 2)
    assert outcome.code == 0 or outcome.err.count("\n") == 1


def test_pipe(attnscope, tensors):
    """Inputs may come through a pipe, which has no size to check in advance."""
    tensors.save(q=np.ones((2, 3), "f"), k=np.ones((4, 3), "f"), v=np.ones((4, 5), "f"))
    arguments = [a if not str(a).startswith("--q=") else "--q=/dev/stdin" for a in tensors.arguments()]
    with open(tensors.path("q"), "rb") as file:
        piped = attnscope(*arguments, input=file.read(), text=False, stdin=None)
    assert piped.code == 0, piped.err
    np.testing.assert_array_equal(tensors.load("out"), np.ones((2, 5), "f"))


def test_named_pipes(attnscope, tensors):
    """Every file that eval and show read may be a pipe, read once from beginning to end, as the shell's
    <(command) makes them: each is waited for, and none is opened twice."""
    tensors.random(batch=1, heads=2, kv_heads=2, queries=8, keys=8)
    ones = {name: np.ones((8, 8), bool) for name in ("mask", "blocks")}
    ids = {"kv-lens": np.full(1, 8), "q-offsets": np.zeros(1, int), "segments": np.zeros(8, int)}
    tensors.save(**ones, **ids, bias=np.zeros((8, 8), "f"), **{"sink-logit": np.zeros(2, "f")})
    content = {path: path.read_bytes() for path in tensors.directory.iterdir()}
    content[tensors.directory / "tuning.json"] = b'{"tuning": []}'

    def run(*arguments) -> None:
        for path in content:
            path.unlink(missing_ok=True)
            os.mkfifo(path)
        named = [path for path in content if any(str(path) in str(a) for a in arguments)]
        writers = [
            threading.Thread(target=path.write_bytes, args=[content[path]], daemon=True) for path in named
        ]
        for writer in writers:
            writer.start()
        outcome = attnscope(*arguments)
        assert outcome.code == 0, outcome.err
        for writer in writers:
            writer.join()

    pattern = f"--pattern=blocks={tensors.path('blocks')}:1"
    shared = [pattern, *(f"--{name}={tensors.path(name)}" for name in ("mask", "bias", "segments"))]
    lists = [f"--{name}={tensors.path(name)}" for name in ("kv-lens", "q-offsets", "sink-logit")]
    table = f"--tuning={tensors.directory / 'tuning.json'}"
    run(*tensors.arguments(*shared, *lists, table, f"--mask-out={tensors.directory / 'out_mask.npy'}"))
    run("show", "--n=8", "--heads=2", *shared)


def test_written_header(read, tensors):
    """NumPy's own reader takes what eval writes, and its data begins at a multiple of 64."""
    assert read(npy()).code == 0
    with open(tensors.path("out"), "rb") as file:
        assert np.lib.format.read_magic(file) == (1, 0)
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        assert (shape, fortran, dtype) == ((2, 5), False, np.dtype("<f4"))
        assert file.tell() % 64 == 0
