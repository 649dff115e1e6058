"""What `eval` refuses: one line on standard error that names the value, exit 2, no file left."""

import re

import numpy as np
import pytest


@pytest.fixture
def refused_eval(refused, tensors):
    """Runs eval on `tensors` with more options, checks that it is refused with these texts and that the
    directory holds no file that was not there before."""

    def check(options, *texts, **how):
        before = sorted(tensors.directory.iterdir())
        message = refused(tensors.arguments(*options), *texts, **how)
        assert sorted(tensors.directory.iterdir()) == before
        return message

    return check


@pytest.mark.parametrize("missing", ["q", "k", "v", "out"])
def test_missing_option(refused, tensors, missing):
    """--q, --k, --v and --out are all needed, and the missing one is named."""
    tensors.random()
    refused([a for a in tensors.arguments() if not str(a).startswith(f"--{missing}=")], f"--{missing}")


@pytest.mark.parametrize("missing", "qkv")
def test_missing_file(refused_eval, tensors, missing):
    """A file that is not there is named, with the system's reason."""
    tensors.random()
    tensors.path(missing).unlink()
    refused_eval([], tensors.path(missing), "No such file")


def test_directory_for_a_file(refused_eval, tensors):
    """A directory in place of an input is refused."""
    tensors.random()
    tensors.path("q").unlink()
    tensors.path("q").mkdir()
    refused_eval([], tensors.path("q"), "directory")


@pytest.mark.parametrize("dtype", ["i4", "u1", "?", "c8", "S4", "U4", "O", "M8[s]", "f4,f4"])
@pytest.mark.parametrize("which", ["q", "v"])
def test_wrong_type(refused_eval, tensors, which, dtype):
    """Q, K and V of another type than float16/32/64 are refused by name, never converted."""
    tensors.random(batch=1, heads=1, kv_heads=1)
    shape = tensors.load(which).shape
    tensors.save(**{which: np.zeros(shape, dtype)})
    refused_eval([], "float16, float32 or float64")


@pytest.mark.parametrize(("which", "option"), [("bias", "--bias"), ("sink", "--sink-logit")])
def test_held_in_float32(tensors, attnscope, which, option):
    """Guards a finite bias or sink beyond float32 that is held at the largest float32: named with its place, once."""
    tensors.random(batch=1, heads=2, kv_heads=1, queries=2, keys=3)
    values = np.zeros((2, 3) if which == "bias" else 2)
    for number in (1e300, -3.5e38):
        values.flat[1:] = number
        tensors.save(**{which: values})
        done = attnscope(*tensors.arguments(option, tensors.path(which)))
        named = f"{option}: element 1 is {number:g}, beyond float32, and taken as {np.copysign(3.40282e38, number):g}"
        assert (done.code, done.err) == (0, f"attnscope eval: warning: {named}\n")
    for number in (np.finfo(np.float32).max, np.inf, -np.inf):
        values.flat[1:] = number
        tensors.save(**{which: values})
        done = attnscope(*tensors.arguments(option, tensors.path(which)))
        assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("which", "qkv")
def test_beyond_float32(tensors, attnscope, which):
    """A finite float64 beyond float32 is named with its place when it becomes Inf, and is no error: it may lie in
    padding. The largest float32 and infinities are numbers like others."""
    tensors.random(batch=1, heads=1, kv_heads=1)
    values = np.zeros(tensors.load(which).shape)
    for number in (1e300, -3.5e38):
        values.flat[5] = number
        tensors.save(**{which: values})
        done = attnscope(*tensors.arguments())
        assert done.code == 0
        taken = "Inf" if number > 0 else "-Inf"
        named = f"--{which}: element 5 is {number:g}, beyond float32, and taken as {taken}"
        assert done.err == f"attnscope eval: warning: {named}\n"
    for number in (np.finfo(np.float32).max, np.inf, np.nan):
        values.flat[5] = number
        tensors.save(**{which: values})
        done = attnscope(*tensors.arguments())
        assert (done.code, done.err) == (0, "")


# The largest finite number of each storage type, and the first that rounds to infinity: half a place above.
STORED = {"f16": (65504.0, 65520.0), "bf16": (float.fromhex("0x1.fep127"), float.fromhex("0x1.ffp127"))}


@pytest.mark.parametrize("dtype", STORED)
@pytest.mark.parametrize("file_type", ["f2", "f4", "f8"])
@pytest.mark.parametrize("which", "qkv")
def test_beyond_the_storage_type(tensors, attnscope, which, file_type, dtype):
    """--dtype says so too where a finite number is beyond its range, whatever the file holds; what rounds to its
    largest number is in it. Once for an operand, however many there are."""
    tensors.random(batch=1, heads=1, kv_heads=1)
    values = np.zeros(tensors.load(which).shape, file_type)
    largest, beyond = STORED[dtype]
    within = np.nextafter(np.float32(beyond), np.float32(0))
    for sign in (1, -1):
        for number in (largest, within, np.inf):
            if file_type == "f2" and number != np.inf:
                number = largest if dtype == "f16" else 65504.0
            values.flat[5] = sign * number
            tensors.save(**{which: values})
            done = attnscope(*tensors.arguments("--dtype", dtype))
            assert (done.code, done.err) == (0, ""), number
        if file_type == "f2":  # has nothing beyond either
            continue
        values.flat[5:] = sign * beyond
        tensors.save(**{which: values})
        done = attnscope(*tensors.arguments("--dtype", dtype))
        taken = "Inf" if sign > 0 else "-Inf"
        named = f"--{which}: element 5 is {sign * beyond:g}, beyond {dtype}, and taken as {taken}"
        assert (done.code, done.err) == (0, f"attnscope eval: warning: {named}\n")
        values.flat[5:] = 0
        tensors.save(**{which: values})


def test_longdouble(refused_eval, tensors):
    """Floats wider than float64 are refused, not cut."""
    tensors.random()
    tensors.save(q=np.zeros((2, 4, 33, 16), np.longdouble))
    refused_eval([], "dtype '<f16'")


def test_fortran_order(refused_eval, tensors):
    """Fortran order is refused by name, since its axes would be read in the wrong order."""
    q, _, _ = tensors.random()
    tensors.save(q=np.asfortranarray(q))
    refused_eval([], tensors.path("q"), "Fortran order", "C order")


@pytest.mark.parametrize(
    "which,shape",
    [
        ("q", (16,)),
        ("q", ()),
        ("q", (1, 2, 4, 33, 16)),
        ("q", (4, 33, 16)),
        ("k", (2, 65, 16)),
        ("q", (3, 4, 33, 16)),
        ("q", (2, 5, 33, 16)),
        ("q", (2, 1, 33, 16)),
        ("q", (2, 0, 33, 16)),
        ("k", (2, 2, 65, 17)),
        ("k", (2, 2, 64, 16)),
        ("k", (2, 4, 65, 16)),
        ("v", (2, 2, 64, 8)),
        ("v", (1, 2, 65, 8)),
    ],
)
def test_shapes_that_do_not_match(refused_eval, tensors, which, shape):
    """Ranks, batches, heads (H a multiple of Hkv), lengths and D must fit; the message shows the
    shape."""
    tensors.random()
    tensors.save(**{which: np.zeros(shape, np.float32)})
    refused_eval([], str(shape))


def test_both_shapes_are_named(refused_eval, tensors):
    """A mismatch between two tensors names both options and both shapes."""
    tensors.random(heads=5, kv_heads=5)
    tensors.save(k=np.zeros((2, 2, 65, 16), "f"), v=np.zeros((2, 2, 65, 8), "f"))
    refused_eval([], "--q", "(2, 5, 33, 16)", "--k", "(2, 2, 65, 16)", "multiple")


def test_empty_head_dimension(refused_eval, tensors):
    """D of zero is no attention."""
    tensors.random(dim=0)
    refused_eval([], "(2, 4, 33, 0)")


@pytest.mark.parametrize(
    "pattern",
    ["", "foo", "window=0", "window=-1", "window=x", "window=1:", "causal,", "causal,causal", "dense,causal",
     "causal,causal,window=2", "prefix=3", "chunk=0", "stride=0", "sink=0", "topk=0", "random=1:2", "Causal",
     " causal", "window=99999999999999999999", "window"],
)  # fmt: skip
def test_patterns(refused_eval, tensors, pattern):
    """Unknown, repeated, conflicting and malformed terms are refused, a window of 0 among them."""
    tensors.random()
    refused_eval(["--pattern", pattern], "pattern")


@pytest.mark.parametrize("pattern", ["blocks=", "blocks=x", "blocks=x:0", "blocks=:8", "blocks=x:8:"])
def test_block_terms(refused_eval, tensors, pattern):
    """blocks= without file or block size says what is expected."""
    tensors.random()
    refused_eval(["--pattern", pattern], pattern, "blocks=FILE:B")


def test_largest_number_of_a_pattern(attnscope, refused_eval, tensors):
    """Each number may be what its message names as the most, in a term that the library reads and in one that
    the command reads; one more is refused, and the message names the most."""
    tensors.random()
    tensors.save(blocks=np.ones((1, 1), bool))
    terms = [
        "window={0}:{0}",
        "prefix={0},causal",
        "chunk={0}",
        "sink={0}",
        "global={0}",
        "stride={0}",
        "topk={0}",
    ]
    terms += ["random={0}:{0}:1", f"blocks={tensors.path('blocks')}:{{0}}"]
    for term in terms:
        attnscope(*tensors.arguments("--pattern", term.format(2**60)))
        refused_eval(
            ["--pattern", term.format(2**60 + 1)], "1 to 2^60" if "window" not in term else "0 to 2^60"
        )


@pytest.mark.parametrize(
    "blocks",
    [np.ones((5, 8), bool), np.ones((9, 5), bool), np.ones((2, 5, 9), bool), np.ones((5, 9), np.uint8)],
)
def test_block_maps_that_do_not_fit(refused_eval, tensors, blocks):
    """A block map must be bool and have ceil(Nq/B) x ceil(Nk/B) entries, alone or per head."""
    tensors.random()
    tensors.save(blocks=blocks)
    refused_eval(["--pattern", f"blocks={tensors.path('blocks')}:8"], "expected")


def test_block_term_beside_others(refused_eval, tensors):
    """blocks= obeys the rules of all terms: not twice, not beside dense."""
    tensors.random()
    tensors.save(blocks=np.ones((5, 9), bool))
    term = f"blocks={tensors.path('blocks')}:8"
    refused_eval(["--pattern", f"{term},{term}"], "twice")
    refused_eval(["--pattern", f"dense,{term}"], "dense stands alone")
    refused_eval(["--pattern", f"{term},"], "pattern")


@pytest.mark.parametrize(
    "option,value",
    [
        ("isa", "sse9"),
        ("isa", "neon-or-avx2"),
        ("algorithm", "fast"),
        ("dtype", "f64"),
        ("layout", "bhdn"),
        ("threads", "0"),
        ("threads", "1025"),
        ("threads", "-1"),
        ("threads", "2.0"),
        ("threads", "0x2"),
        ("threads", ""),
        ("scale", "nan"),
        ("scale", "inf"),
        ("scale", "1e39"),
        ("scale", "1e-50"),
        ("scale", "0x1p3"),
        ("scale", " 1"),
        ("scale", "1,5"),
        ("softcap", "0"),
        ("softcap", "-0.0"),
        ("softcap", "1e-60"),
        ("softcap", "-1"),
        ("softcap", "x"),
    ],
)
def test_values(refused_eval, tensors, option, value):
    """A bad value is named, beside what would be accepted."""
    tensors.random()
    refused_eval([f"--{option}", value], f"'{value}'")


def test_level_that_this_cpu_lacks(attnscope, refused_eval, tensors, levels):
    """A known level that cannot run here is refused with the reason, by option and by ATTNSCOPE_ISA."""
    tensors.random()
    absent = {"scalar", "avx2", "avx512", "neon"} - set(levels)
    assert absent  # no machine has both AVX and NEON
    for level in absent:
        refused_eval(["--isa", level], level)
        refused_eval([], level, env={"ATTNSCOPE_ISA": level})


def test_topk_in_flash_and_its_mask(attnscope, refused_eval, tensors):
    """What an algorithm cannot compute is refused by name: topk in flash; and a mask that depends on
    scores cannot be written."""
    tensors.random()
    refused_eval(["--pattern=topk=4", "--algorithm=flash"], "topk", "flash")
    refused_eval(["--pattern=topk=4", f"--mask-out={tensors.path('mask')}"], "topk")


@pytest.mark.parametrize(
    "option,array,texts",
    [
        ("mask", np.ones((33, 64), bool), ["(33, 64)", "(2, 4, 33, 65)"]),
        ("mask", np.ones((2, 33, 65), bool), ["(2, 33, 65)", "(2, 4, 33, 65)"]),
        ("mask", np.ones((1, 2, 4, 33, 65), bool), ["broadcast"]),
        ("mask", np.ones((33, 65), np.float32), ["float32", "bool"]),
        ("mask", np.ones((33, 65), np.int8), ["int8", "bool"]),
        ("bias", np.ones((33, 65), bool), ["bool", "float32"]),
        ("bias", np.ones((33, 65), np.int64), ["int64", "float32"]),
        ("bias", np.ones((65, 33), np.float32), ["(65, 33)"]),
        ("kv-lens", np.array([3]), ["(1,)", "(2,)"]),
        ("kv-lens", np.array(66), ["66", "65"]),
        ("kv-lens", np.array([3, 66]), ["66", "65"]),
        ("kv-lens", np.array([-1, 5]), ["-1"]),
        ("kv-lens", np.array([1.0, 5.0]), ["float64", "integer"]),
        ("kv-lens", np.array([1, 2**63], np.uint64), [str(2**63)]),
        ("q-offsets", np.array([1, 2, 3]), ["(3,)", "(2,)"]),
        ("q-offsets", np.array([0, 2**62]), ["q_offsets", str(2**62)]),
        ("q-offsets", np.array([True, False]), ["bool", "integer"]),
        ("segments", np.zeros((2, 33), int), ["(2, 33)", "(2, 65)"]),
        ("segments", np.zeros((33,), int), ["(33,)"]),
        ("segments", np.zeros((2, 65), "f"), ["float32", "integer"]),
        ("sink-logit", np.zeros(2, "f"), ["(2,)", "(4,)"]),
        ("sink-logit", np.zeros(4, int), ["int64", "float32"]),
    ],
)
def test_inputs_that_do_not_fit(refused_eval, tensors, option, array, texts):
    """Masks, biases, lengths, offsets, segments and sink logits of a wrong type, shape or range."""
    tensors.random()
    tensors.save(extra=array)
    refused_eval([f"--{option}", tensors.path("extra")], *texts)


@pytest.mark.parametrize("option", ["mask", "bias", "kv-lens", "q-offsets", "segments", "sink-logit"])
def test_missing_inputs(refused_eval, tensors, option):
    """Every optional file that is named must be there."""
    tensors.random()
    refused_eval([f"--{option}", tensors.path("nothing")], tensors.path("nothing"))


def test_unknown_options(refused_eval, tensors):
    """Unknown options are named, and a beginning of a name is not taken for the name."""
    tensors.random()
    refused_eval(["--foo"], "--foo", "--help")
    refused_eval(["--foo=bar"], "--foo")
    refused_eval(["--sca", "1"], "--sca")
    refused_eval(["-x"], "-x")
    refused_eval(["--scale"], "--scale")
    refused_eval(["--alibi=1"], "--alibi")
    refused_eval(["stray"], "'stray'")


def test_control_characters_stay_out_of_the_message(refused, tensors):
    """A value with line breaks still gives one line."""
    tensors.random()
    refused(tensors.arguments("--pattern", "a\nb\tc"))
    refused(tensors.arguments("--bias", "a\nb"))


@pytest.mark.parametrize(
    ("term", "limits"),
    [
        ("prefix=0", ["P 1 to 2^60"]),
        ("chunk=0", ["C 1 to 2^60"]),
        ("window=0", ["W 1 to 2^60", "L and R 0 to 2^60 or inf"]),
        ("sink=0", ["S 1 to 2^60"]),
        ("global=0", ["G 1 to 2^60"]),
        ("stride=0", ["T 1 to 2^60"]),
        ("topk=0", ["K 1 to 2^60"]),
        ("random=0:1:1", ["R and B 1 to 2^60", "SEED 0 to 2^64-1"]),
        ("random=1:1:18446744073709551616", ["R and B 1 to 2^60", "SEED 0 to 2^64-1"]),
    ],
)
def test_error_of_a_term_has_the_limits_of_all_its_values(refused_eval, tensors, term, limits):
    """Guards an error that gives limits, but not of the value that is outside its own."""
    tensors.random(batch=1, heads=1, kv_heads=1)
    message = refused_eval([f"--pattern=causal,{term}"], term, *limits)
    values = message.split("accepted: ")[1]
    for value in re.findall(r"\b[A-Z]+\b", values):
        assert re.search(rf"\b{value}\b( and [A-Z])? \d to 2\^", values)


def test_largest_seed_is_taken(attnscope, tensors):
    """Guards a limit in an error that is not the one in force."""
    tensors.random(batch=1, heads=1, kv_heads=1)
    assert attnscope(*tensors.arguments(f"--pattern=random=1:1:{2**64 - 1}")).code == 0
