"""What `eval` computes, against NumPy in float64, on every level and algorithm of this machine."""

import numpy as np
import pytest
from attention_oracle import EPS, STORED, assert_close, attended, attention, slopes

ALGORITHMS = ("naive", "flash")

PATTERNS = (
    "dense",
    "causal",
    "causal-top-left",
    "causal,prefix=9",
    "chunk=16",
    "causal,chunk=7",
    "window=1",
    "window=64",
    "window=3:2",
    "window=inf:5",
    "causal,window=10,sink=4",
    "window=4:4,global=3",
    "stride=5",
)


def every_way(levels):
    return [("--algorithm", algorithm, "--isa", level) for algorithm in ALGORITHMS for level in levels]


def check(attnscope, tensors, levels, arguments, expected):
    """Runs eval every way and compares output and log-sum-exp."""
    out, lse, out_tolerance, lse_tolerance = expected
    for how in every_way(levels):
        lse_option = f"--lse={tensors.path('lse')}"
        outcome = attnscope(*tensors.arguments(*arguments, *how, lse_option))
        assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
        assert tensors.load("out").dtype == np.float32
        assert_close(tensors.load("out"), out, out_tolerance)
        assert_close(tensors.load("lse"), lse, lse_tolerance)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("queries,keys", [(33, 65), (65, 33), (1, 130), (130, 130)])
def test_patterns(attnscope, tensors, levels, pattern, queries, keys):
    """Each pattern term attends the pairs that its definition says, with queries fewer and more than
    keys, and heads grouped."""
    q, k, v = tensors.random(queries=queries, keys=keys)
    mask = attended(pattern, queries, keys)
    check(attnscope, tensors, levels, ["--pattern", pattern], attention(q, k, v, mask))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_mask_out(attnscope, tensors, pattern):
    """--mask-out writes the attended pairs, one mask for all where nothing varies."""
    tensors.random(queries=20, keys=33)
    outcome = attnscope(*tensors.arguments("--pattern", pattern, f"--mask-out={tensors.path('mask')}"))
    assert outcome.code == 0, outcome.err
    mask = tensors.load("mask")
    assert mask.dtype == bool and mask.shape == (1, 1, 20, 33)
    np.testing.assert_array_equal(mask[0, 0], attended(pattern, 20, 33))


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_ranks(attnscope, tensors, rank):
    """Tensors of two, three and four dimensions; the output has Q's leading shape and Dv, the
    log-sum-exp Q's without D."""
    q, k, v = tensors.random(batch=1, heads=1 if rank == 2 else 4, kv_heads=1)
    out, lse, out_tolerance, lse_tolerance = attention(q, k, v, True)
    lead = (0,) * (4 - rank)
    tensors.save(q=q[lead], k=k[lead], v=v[lead])
    outcome = attnscope(*tensors.arguments(f"--lse={tensors.path('lse')}"))
    assert outcome.code == 0, outcome.err
    assert_close(tensors.load("out"), out[lead], out_tolerance[lead])
    assert_close(tensors.load("lse"), lse[lead], lse_tolerance[lead])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4", ">f8", ">f2"])
def test_input_types(attnscope, tensors, dtype):
    """float16, float32 and float64 of either byte order are the same numbers to eval; float64 is
    narrowed to float32."""
    arrays = [x.astype(dtype) for x in tensors.random(heads=2, queries=5, keys=9)]
    tensors.save(**dict(zip("qkv", arrays, strict=True)))
    outcome = attnscope(*tensors.arguments())
    assert outcome.code == 0, outcome.err
    out, _, tolerance, _ = attention(*(x.astype(np.float32) for x in arrays), True)
    assert_close(tensors.load("out"), out, tolerance)


def test_bnhd_layout(attnscope, tensors, levels):
    """Layout bnhd is the same attention with the axes of heads and positions exchanged, in the
    tensors, the output and the log-sum-exp, and not in masks and biases."""
    q, k, v = tensors.random()
    bias = np.random.default_rng(2).standard_normal((4, 33, 65), dtype=np.float32)
    expected = attention(q, k, v, attended("causal", 33, 65), bias=bias)
    out, lse, out_tolerance, lse_tolerance = expected
    swapped = {name: x.swapaxes(1, 2).copy() for name, x in zip("qkv", (q, k, v), strict=True)}
    tensors.save(**swapped, bias=bias)
    arguments = ["--layout", "bnhd", "--pattern", "causal", f"--bias={tensors.path('bias')}"]
    expected = (x.swapaxes(1, 2) for x in (out, lse, out_tolerance, lse_tolerance))
    check(attnscope, tensors, levels, arguments, tuple(expected))


def test_layout_is_not_guessed_for_three_dimensions(attnscope, tensors):
    """Rank 3 is (H,N,D) in bhnd and (N,H,D) in bnhd, also when H and N are equal."""
    q, k, v = (x[0] for x in tensors.random(batch=1, heads=6, kv_heads=6, queries=6, keys=6))
    tensors.save(q=q, k=k, v=v)
    attnscope(*tensors.arguments())
    bhnd = tensors.load("out")
    tensors.save(**{name: x.swapaxes(0, 1).copy() for name, x in zip("qkv", (q, k, v), strict=True)})
    attnscope(*tensors.arguments("--layout=bnhd"))
    np.testing.assert_array_equal(tensors.load("out"), bhnd.swapaxes(0, 1))


@pytest.mark.parametrize("shape", [(), (65,), (33, 1), (33, 65), (4, 1, 65), (2, 1, 33, 65), (2, 4, 33, 65)])
def test_mask_and_bias_broadcast_like_numpy(attnscope, tensors, levels, shape):
    """A mask and a bias of every shape that NumPy broadcasts to (B,H,Nq,Nk)."""
    q, k, v = tensors.random()
    rng = np.random.default_rng(3)
    mask = rng.random(shape) < 0.6
    bias = np.where(rng.random(shape) < 0.1, -np.inf, rng.standard_normal(shape)).astype(np.float32)
    tensors.save(mask=np.asarray(mask), bias=np.asarray(bias))
    expected = attention(q, k, v, mask, bias=bias)
    options = [f"--{name}={tensors.path(name)}" for name in ("mask", "bias")]
    check(attnscope, tensors, levels, options, expected)


@pytest.mark.parametrize("least", [np.finfo("f2").min, np.finfo("f4").min, np.finfo("f8").min])
def test_finite_biases_do_not_mask(attnscope, tensors, levels, least):
    """However negative a finite bias is, in whatever type, a row that has it everywhere is an ordinary
    row; only -inf masks. Finite sink logits beyond float32 stay numbers too."""
    q, k, v = tensors.random(1, 2, 2, 3, 70)
    bias = np.zeros((3, 70), least.dtype)
    bias[1] = least
    bias[2] = -np.inf
    tensors.save(q=0 * q, bias=bias, sink=np.array([-1e300, 1e300]))
    options = [f"--bias={tensors.path('bias')}", f"--weights={tensors.path('w')}"]
    for how in every_way(levels):
        assert attnscope(*tensors.arguments(*options, *how)).code == 0
        w = tensors.load("w")
        assert (abs(w[:, :, :2] - 1 / 70) <= 70 * EPS / 70).all() and not w[:, :, 2].any()
    options += [f"--sink-logit={tensors.path('sink')}", f"--lse={tensors.path('lse')}"]
    for how in every_way(levels):
        assert attnscope(*tensors.arguments(*options, *how)).code == 0
        w, lse = tensors.load("w"), tensors.load("lse")
        assert (abs(w[0, 0, 0] - 1 / 70) <= 70 * EPS / 70).all() and not w[0, 1].any()
        assert np.isfinite(lse).all() and (lse[0, 1] == np.finfo("f4").max).all()


def test_mask_of_three_dimensions_counts_from_the_right(attnscope, tensors):
    """With B == H, a mask of three dimensions is (H,Nq,Nk), never (B,Nq,Nk)."""
    q, k, v = tensors.random(batch=3, heads=3, kv_heads=3, queries=7, keys=7)
    mask = np.random.default_rng(4).random((3, 7, 7)) < 0.5
    tensors.save(mask=mask)
    attnscope(*tensors.arguments(f"--mask={tensors.path('mask')}"))
    out, _, tolerance, _ = attention(q, k, v, mask[None])
    assert_close(tensors.load("out"), out, tolerance)


@pytest.mark.parametrize("integer", [np.int8, np.uint16, np.int32, np.int64, ">i4"])
def test_lengths(attnscope, tensors, levels, integer):
    """Keys at or past kv_lens are padding, whatever lies there; lengths of any integer type."""
    q, k, v = tensors.random(batch=3)
    lens = np.array([0, 17, 65])
    valid = np.arange(65)[None, :] < lens[:, None]
    expected = attention(q, k, v, valid[:, None, None, :])
    k, v = (np.where(valid[:, None, :, None], x, np.float32(np.nan)) for x in (k, v))
    tensors.save(k=k, v=v, lens=lens.astype(integer))
    check(attnscope, tensors, levels, [f"--kv-lens={tensors.path('lens')}"], expected)


@pytest.mark.parametrize("batch", [1, 3])
def test_scalars(attnscope, tensors, batch):
    """A length, an offset and a sink logit without a dimension serve all batches and heads."""
    q, k, v = tensors.random(batch=batch)
    tensors.save(lens=np.array(20), offsets=np.array(7), sink=np.array(0.5))
    options = [f"--kv-lens={tensors.path('lens')}", f"--q-offsets={tensors.path('offsets')}"]
    options += [f"--sink-logit={tensors.path('sink')}", "--pattern=causal"]
    assert attnscope(*tensors.arguments(*options)).code == 0
    mask = attended("causal", 33, 65, 7) & (np.arange(65) < 20)
    out, _, tolerance, _ = attention(q, k, v, mask, sink=np.full(4, 0.5))
    assert_close(tensors.load("out"), out, tolerance)


def test_offsets(attnscope, tensors, levels):
    """q_offsets place the queries among the keys, per batch, in place of Nk - Nq."""
    q, k, v = tensors.random(batch=3, queries=5)
    offsets = np.array([-2, 0, 40])
    tensors.save(offsets=offsets)
    mask = np.stack([attended("causal,window=9", 5, 65, offset) for offset in offsets])[:, None]
    options = ["--pattern", "causal,window=9", f"--q-offsets={tensors.path('offsets')}"]
    check(attnscope, tensors, levels, options, attention(q, k, v, mask))


@pytest.mark.parametrize("shared", [False, True])
def test_segments(attnscope, tensors, levels, shared):
    """Only equal segment ids attend each other; a query has the id of its position; one list may
    serve all batches."""
    q, k, v = tensors.random(queries=33, keys=65)
    ids = np.sort(np.random.default_rng(5).integers(0, 6, (2, 65)), axis=1)
    ids = ids[0] if shared else ids
    tensors.save(segments=ids)
    ids = np.broadcast_to(ids, (2, 65))
    mask = ids[:, 65 - 33 :, None] == ids[:, None, :]
    options = [f"--segments={tensors.path('segments')}"]
    check(attnscope, tensors, levels, options, attention(q, k, v, mask[:, None]))


@pytest.mark.parametrize("heads", [1, 2, 6, 8, 12])
def test_alibi(attnscope, tensors, levels, heads):
    """ALiBi's slopes follow the published rule, also where H is not a power of two."""
    q, k, v = tensors.random(heads=heads, kv_heads=1)
    expected = attention(q, k, v, attended("causal", 33, 65), slope=slopes(heads))
    check(attnscope, tensors, levels, ["--alibi", "--pattern=causal"], expected)


def test_alibi_of_six_heads(attnscope, tensors):
    """The slopes of six heads are 2^-2, 2^-4, 2^-6, 2^-8, 2^-1, 2^-3: with equal scores, the logarithm of
    the ratio of neighbouring weights."""
    tensors.save(q=np.zeros((6, 1, 4)), k=np.zeros((1, 3, 4)), v=np.zeros((1, 3, 1)))
    assert attnscope(*tensors.arguments("--alibi", f"--weights={tensors.path('w')}")).code == 0
    w = tensors.load("w")[:, 0].astype(np.float64)
    slope = 2.0 ** -np.array([2, 4, 6, 8, 1, 3])
    for key in (0, 1):
        assert (abs(np.log(w[:, key + 1] / w[:, key]) - slope) <= 8 * EPS).all()


@pytest.mark.parametrize("scale", [0.0, -0.7, 1.0, 3e-3])
@pytest.mark.parametrize("softcap", [None, 2.5])
def test_scale_and_softcap(attnscope, tensors, levels, scale, softcap):
    """Any finite scale, zero and negative ones too; the cap applies to the scaled score."""
    q, k, v = tensors.random()
    expected = attention(q, k, v, True, scale=scale, softcap=softcap or 0)
    options = ["--scale", scale] + (["--softcap", softcap] if softcap else [])
    check(attnscope, tensors, levels, options, expected)


def test_sink_logit(attnscope, tensors, levels):
    """A sink logit per head adds to the denominator; a row with no key is zero and its log-sum-exp is
    the logit; -inf is none."""
    q, k, v = tensors.random(queries=70)
    sink = np.array([0.5, -np.inf, 3, -1], np.float32)
    tensors.save(sink=sink)
    expected = attention(q, k, v, attended("causal", 70, 65), sink=sink)
    options = ["--pattern=causal", f"--sink-logit={tensors.path('sink')}"]
    check(attnscope, tensors, levels, options, expected)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_storage_types(attnscope, tensors, levels, dtype):
    """--dtype rounds Q, K and V to nearest even first; the arithmetic stays float32."""
    expected = attention(*(STORED[dtype](x) for x in tensors.random()), True)
    check(attnscope, tensors, levels, ["--dtype", dtype], expected)


@pytest.mark.parametrize("dtype,step", [("f16", 2.0**-10), ("bf16", 2.0**-7)])
def test_rounding_to_storage(attnscope, tensors, dtype, step):
    """One key of weight 1 passes V through: float64 becomes float32 and then the storage type, each to
    nearest even; float16 files too, and NaN, Inf and the largest numbers keep their kind."""
    ties = [1 + step / 2, 1 + 3 * step / 2, 1 + step / 2 + 2.0**-23, 1 + step / 2 + 2.0**-40]
    v = np.array(
        [ties + [-x for x in ties] + [3e38, -3e38, 65519, 65520, 0, 1e-45, 2**-24.5, 2**-25, np.inf]]
    )
    with np.errstate(over="ignore"):
        narrow = v.astype(np.float32)
        expected = STORED[dtype](narrow)
    # 1 + step/2 + 2^-40 is a tie in float32, which goes to the even 1, not up.
    assert (
        expected[0, 0] == expected[0, 3] == 1
        and expected[0, 2] == 1 + step
        and expected[0, 1] == 1 + 2 * step
    )
    tensors.save(q=np.ones((1, 1)), k=np.ones((1, 1)), v=v)
    for algorithm in ALGORITHMS:
        assert attnscope(*tensors.arguments("--dtype", dtype, "--algorithm", algorithm)).code == 0
        np.testing.assert_array_equal(tensors.load("out"), expected)
    half = np.arange(65536, dtype=np.uint16).view(np.float16)[None]
    half = half[:, np.isfinite(half[0])]
    tensors.save(v=half)
    for algorithm in ALGORITHMS:
        assert attnscope(*tensors.arguments("--algorithm", algorithm)).code == 0
        np.testing.assert_array_equal(tensors.load("out"), half.astype(np.float32))


@pytest.mark.parametrize("per_head", [False, True])
def test_block_map(attnscope, tensors, per_head):
    """blocks=FILE:B selects whole blocks, by one map or by one per head; B follows the last colon,
    and a file's name may hold commas and colons."""
    q, k, v = tensors.random(batch=1)
    blocks = np.random.default_rng(6).random((4, 5, 9) if per_head else (5, 9)) < 0.4
    path = tensors.directory / "a:b,c:3.npy"
    with open(path, "wb") as file:
        np.save(file, blocks)
    full = np.repeat(np.repeat(blocks, 8, axis=-2), 8, axis=-1)[..., :33, :65]
    mask = np.broadcast_to(full & attended("causal", 33, 65), (4, 33, 65))
    options = ["--pattern", f"causal,blocks={path}:8", f"--mask-out={tensors.path('mask')}"]
    outcome = attnscope(*tensors.arguments(*options, "--explain"))
    assert outcome.code == 0, outcome.err
    assert outcome.values()["pattern"] == f"causal,blocks={path}:8"
    written = tensors.load("mask")
    assert written.shape == (1, 4 if per_head else 1, 33, 65)
    np.testing.assert_array_equal(np.broadcast_to(written[0], mask.shape), mask)
    out, _, tolerance, _ = attention(q, k, v, mask[None])
    assert_close(tensors.load("out"), out, tolerance)


def test_mask_out_varies_where_inputs_do(attnscope, tensors):
    """The effective mask joins every input that masks, and has the batches and heads over which one of
    them varies."""
    tensors.random()
    rng = np.random.default_rng(7)
    mask = rng.random((4, 1, 65)) < 0.8
    bias = np.where(rng.random((33, 65)) < 0.2, -np.inf, 0)
    lens = np.array([65, 30])
    tensors.save(mask=mask, bias=bias, lens=lens)
    options = [f"--mask={tensors.path('mask')}", f"--bias={tensors.path('bias')}"]
    options += [f"--mask-out={tensors.path('effective')}"]
    assert attnscope(*tensors.arguments(*options)).code == 0
    expected = mask & (bias == 0)
    np.testing.assert_array_equal(tensors.load("effective"), expected[None])
    assert attnscope(*tensors.arguments(*options, f"--kv-lens={tensors.path('lens')}")).code == 0
    expected = expected & (np.arange(65) < lens[:, None, None, None])
    np.testing.assert_array_equal(tensors.load("effective"), expected)


@pytest.mark.parametrize("shapes", [(0, 1, 3, 4, 5), (2, 2, 0, 4, 5), (2, 2, 3, 0, 5), (2, 2, 3, 4, 0)])
def test_empty_shapes(attnscope, tensors, shapes):
    """Batch, queries, keys and Dv may be zero: no rows, or zeros."""
    batch, heads, queries, keys, value_dim = shapes
    tensors.random(batch, heads, heads, queries, keys, 3, value_dim)
    options = [f"--lse={tensors.path('lse')}", f"--mask-out={tensors.path('mask')}"]
    outcome = attnscope(*tensors.arguments(*options))
    assert outcome.code == 0, outcome.err
    assert tensors.load("out").shape == (batch, heads, queries, value_dim)
    assert not tensors.load("out").any()
    assert tensors.load("lse").shape == (batch, heads, queries)
    assert tensors.load("mask").shape == (1, 1, queries, keys)
    if keys == 0:
        assert (tensors.load("lse") == -np.inf).all()


def test_threads_do_not_change_a_bit(attnscope, tensors):
    """The result is bitwise the same for any number of threads, 1 to 1024."""
    tensors.random(heads=4, queries=200, keys=300)
    results = []
    for threads in (1, 2, 3, 8, 1024):
        outcome = attnscope(*tensors.arguments("--threads", threads, "--pattern=causal", "--explain"))
        assert outcome.code == 0 and 1 <= int(outcome.values()["threads"]) <= threads
        results.append(tensors.path("out").read_bytes())
    assert len(set(results)) == 1


def test_example_of_three_scores(attnscope, tensors):
    """Scores 2.0, 1.0 and 0.5 give weights of about 0.63, 0.23 and 0.14."""
    tensors.save(q=np.ones((1, 1)), k=np.array([[2.0], [1.0], [0.5]]), v=np.eye(3))
    assert attnscope(*tensors.arguments()).code == 0
    np.testing.assert_array_equal(tensors.load("out").round(2), np.float32([[0.63, 0.23, 0.14]]))


def test_isa_from_the_environment(attnscope, tensors, levels):
    """ATTNSCOPE_ISA is what auto means, --isa goes before it."""
    tensors.random()
    for level in levels:
        values = attnscope(*tensors.arguments("--explain"), env={"ATTNSCOPE_ISA": level}).values()
        assert values["isa"] == level
    environment = {"ATTNSCOPE_ISA": levels[-1]}
    values = attnscope(*tensors.arguments("--explain", "--isa", levels[0]), env=environment).values()
    assert values["isa"] == levels[0]
