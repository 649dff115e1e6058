"""The attention matrix that `eval --weights` writes, against NumPy in float64."""

import numpy as np
import pytest
from attention_oracle import EPS, STORED, assert_close, attended, compute

WAYS = ("naive", "flash")


@pytest.fixture
def weights(attnscope, tensors, levels):
    """Runs eval every way with --weights; yields (weights, output) of each run."""

    def run(*options, algorithms=WAYS):
        for algorithm in algorithms:
            for level in levels:
                how = (f"--weights={tensors.path('w')}", "--algorithm", algorithm, "--isa", level)
                outcome = attnscope(*tensors.arguments(*options, *how))
                assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
                assert tensors.load("w").dtype == np.float32
                yield tensors.load("w"), tensors.load("out")

    return run


@pytest.mark.parametrize(
    "pattern", ["dense", "causal", "causal,window=10,sink=2", "stride=5", "random=1:16:3"]
)
@pytest.mark.parametrize("queries,keys", [(33, 65), (70, 40), (130, 130)])
def test_patterns(tensors, weights, pattern, queries, keys):
    """Every way gives the softmax: rows sum to 1 or are exact zeros, masked entries are exact zeros, and
    the weights times V are the output."""
    q, k, v = tensors.random(queries=queries, keys=keys)
    expected = compute(q, k, v, attended(pattern, queries, keys))
    any_key = expected.mask.any(axis=-1)
    for w, out in weights("--pattern", pattern):
        assert_close(w, expected.weights, expected.weights_tolerance)
        sums = w.sum(axis=-1, dtype=np.float64)
        assert (abs(sums[any_key] - 1) <= keys * EPS).all()
        assert not w[~any_key].any() and not w[~expected.mask].any()
        product = np.einsum("bhij,bhjd->bhid", w.astype(np.float64), np.repeat(v, 2, axis=1))
        assert_close(out, product, keys * EPS * abs(v).max() + 0 * product)


@pytest.mark.parametrize("keys", [1, 1023, 1024, 1025, 2048, 2049, 2500])
@pytest.mark.parametrize("queries", [1, 9])
def test_many_keys(tensors, weights, queries, keys):
    """Key lengths around the columns that are computed together, with decoding's split of the keys and
    without."""
    q, k, v = tensors.random(1, 2, 1, queries, keys, dim=3, value_dim=1)
    expected = compute(q, k, v, attended("causal", queries, keys))
    for w, _ in weights("--pattern=causal"):
        assert_close(w, expected.weights, expected.weights_tolerance)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_storage_types(tensors, weights, dtype):
    """With keys stored in 16 bits the weights are those of the rounded keys, themselves not rounded."""
    q, k, v = (STORED[dtype](x) for x in tensors.random())
    expected = compute(q, k, v, True)
    for w, _ in weights("--dtype", dtype):
        assert_close(w, expected.weights, expected.weights_tolerance)


def test_sink_logit(tensors, weights):
    """The sink's share is missing from the sums: 1 - exp(sink - lse)."""
    q, k, v = tensors.random()
    sink = np.array([1, 3, -np.inf, -2], np.float32)
    tensors.save(sink=sink)
    expected = compute(q, k, v, True, sink=sink)
    share = 1 - np.exp(sink[:, None] - expected.lse)
    assert share[:, :2].max() < 1
    for w, _ in weights(f"--sink-logit={tensors.path('sink')}"):
        assert_close(w, expected.weights, expected.weights_tolerance)
        assert (abs(w.sum(axis=-1, dtype=np.float64) - share) <= 65 * EPS).all()


def test_topk(tensors, weights):
    """topk leaves K weights of a row and zeros elsewhere."""
    tensors.random()
    for w, _ in weights("--pattern=causal,topk=5", algorithms=["naive"]):
        assert ((w > 0).sum(axis=-1) == 5).all()
        assert (abs(w.sum(axis=-1, dtype=np.float64) - 1) <= 65 * EPS).all()


def test_nan_rows(tensors, weights):
    """A row with NaN in its query is NaN, rows beside it are clean; NaN and Inf in values, which are no
    part of the weights, and in masked keys leave no trace."""
    q, k, v = tensors.random(kv_heads=4)
    expected = compute(q, k, v, attended("causal", 33, 65))
    q[1, 2, 5] = np.nan
    k[:, :, 64] = np.nan  # the last query alone attends it
    v[:, :, ::7] = np.nan
    v[:, :, 1::7] = np.inf
    tensors.save(q=q, k=k, v=v)
    clean = np.ones((2, 4, 33), bool)
    clean[1, 2, 5] = clean[:, :, 32] = False
    for w, _ in weights("--pattern=causal"):
        assert np.isnan(w[~clean]).all()
        assert_close(w[clean], expected.weights[clean], expected.weights_tolerance[clean])


@pytest.mark.parametrize("rank", [2, 3, 4])
@pytest.mark.parametrize("layout", ["bhnd", "bnhd"])
def test_shapes(attnscope, tensors, rank, layout):
    """The matrix has as many dimensions as Q and stands by head, query and key in either layout."""
    heads = 1 if rank == 2 else 4
    q, k, v = tensors.random(batch=2 if rank == 4 else 1, heads=heads, kv_heads=1)
    expected = compute(q, k, v, True)
    lead = (0,) * (4 - rank)
    swap = (lambda x: x) if layout == "bhnd" or rank == 2 else (lambda x: x.swapaxes(-3, -2).copy())
    tensors.save(q=swap(q[lead]), k=swap(k[lead]), v=swap(v[lead]))
    outcome = attnscope(*tensors.arguments(f"--layout={layout}", f"--weights={tensors.path('w')}"))
    assert outcome.code == 0, outcome.err
    assert_close(tensors.load("w"), expected.weights[lead], expected.weights_tolerance[lead])


@pytest.mark.parametrize("shapes", [(0, 1, 3, 4, 5), (2, 2, 0, 4, 5), (2, 2, 3, 0, 5), (2, 2, 3, 4, 0)])
def test_empty_shapes(attnscope, tensors, shapes):
    """Nothing to weigh gives an array of that shape; Dv of 0 has weights all the same."""
    batch, heads, queries, keys, value_dim = shapes
    tensors.random(batch, heads, heads, queries, keys, 3, value_dim)
    assert attnscope(*tensors.arguments(f"--weights={tensors.path('w')}")).code == 0
    w = tensors.load("w")
    assert w.shape == (batch, heads, queries, keys)
    assert not w.size or (abs(w.sum(axis=-1) - 1) <= keys * EPS).all()


def test_nothing_else_changes(attnscope, tensors):
    """Output, log-sum-exp and counts are those of a run without --weights, for any number of threads the
    weights too."""
    tensors.random(queries=200, keys=300)
    plain, matrices = None, set()
    for more in ([], [f"--weights={tensors.path('w')}"], [f"--weights={tensors.path('w')}", "--threads=3"]):
        options = ["--pattern=causal,window=90", f"--lse={tensors.path('lse')}", "--explain", *more]
        outcome = attnscope(*tensors.arguments(*options))
        values = outcome.values() | {"threads": ""}
        result = (values, tensors.path("out").read_bytes(), tensors.path("lse").read_bytes())
        plain = plain or result
        assert result == plain
        if more:
            matrices.add(tensors.path("w").read_bytes())
    assert len(matrices) == 1


@pytest.mark.parametrize("queries,keys,most", [(8193, 8192, 2**26), (700, 30000, 2**39 // 30000)])
def test_too_many(refused, tensors, queries, keys, most):
    """Beyond 2^26 elements, fewer where each of them costs a long row, the shape and the limit are named
    and nothing is written."""
    tensors.random(1, 1, 1, queries, keys, 1, 1)
    before = sorted(tensors.directory.iterdir())
    refused(
        tensors.arguments(f"--weights={tensors.path('w')}"), "--weights", f"(1, 1, {queries}, {keys})", most
    )
    assert sorted(tensors.directory.iterdir()) == before
