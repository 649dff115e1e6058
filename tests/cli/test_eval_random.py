"""Random combinations of all options of `eval`, each against NumPy in float64.

The seed is printed by every case; ATTNSCOPE_TEST_SEED replays a run, ATTNSCOPE_TEST_CASES sets its length.
"""

import dataclasses
import os

import numpy as np
import pytest
from attention_oracle import STORED, assert_close, attended, compute, positions, slopes

SEED = int(os.environ.get("ATTNSCOPE_TEST_SEED", "20240607"))
CASES = int(os.environ.get("ATTNSCOPE_TEST_CASES", "300"))

SHORT = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 70)
LENGTHS = (*SHORT, 97, 127, 128, 129, 130, 192, 257)
DIMS = (1, 2, 3, 4, 5, 8, 15, 16, 17, 24, 32, 33, 40, 64, 80, 96)
INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i2", ">i8", ">u4")
FLOATS = ("<f4", "<f4", "<f2", "<f8", ">f4", ">f8")


@dataclasses.dataclass
class Case:
    """One problem: arrays as eval reads them, in (B,H,N,D) order, and what masks and shifts them."""

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    pattern: str
    topk: int | None
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    options: list[str]
    extra: dict[str, np.ndarray]  # option -> array
    oracle: dict  # keyword arguments of compute()
    mask: np.ndarray  # (B,H,Nq,Nk), before topk and the bias
    dtype: str


def choose(rng, *choices):
    return choices[rng.integers(len(choices))]


def draw_shape(rng):
    """B, H, Hkv, Nq, Nk: prefill of any lengths, or a few queries against a long cache."""
    group = int(choose(rng, 1, 1, 2, 3, 4))
    kv_heads = int(choose(rng, 1, 1, 2, 3))
    batch = int(choose(rng, 1, 1, 2, 3))
    if rng.random() < 0.15:
        return 1, group, 1, int(rng.integers(1, 9)), int(rng.integers(2049, 4500))
    queries, keys = (int(choose(rng, *LENGTHS)) for _ in range(2))
    if rng.random() < 0.04:
        queries, keys, batch = (int(x) for x in rng.permutation([0, queries, keys]))
        batch = min(batch, 2)
    return batch, group * kv_heads, kv_heads, queries, keys


def draw_pattern(rng, heads, queries, keys, directory):
    """Terms in any order, the block map of `blocks`, and K of topk."""
    near = lambda limit: int(rng.integers(1, max(2, limit + limit // 4 + 2)))  # noqa: E731
    small = lambda: int(choose(rng, 1, 2, 3, 5, 8, 16, 17, 31, 64))  # noqa: E731
    terms, blocks, topk = [], None, None
    if rng.random() < 0.5:
        terms.append(choose(rng, "causal", "causal", "causal-top-left"))
        if rng.random() < 0.25:
            terms.append(f"prefix={near(keys)}")
    if rng.random() < 0.15:
        terms.append(f"chunk={near(keys)}")
    if rng.random() < 0.3:
        sides = [choose(rng, "inf", 0, near(keys), near(8)) for _ in range(2)]
        terms.append(
            choose(rng, f"window={near(keys)}", f"window={near(8)}", f"window={sides[0]}:{sides[1]}")
        )
    if rng.random() < 0.2:
        terms.append(f"sink={near(6)}")
    if rng.random() < 0.15:
        terms.append(f"global={near(min(keys, 70))}")
    if rng.random() < 0.15:
        terms.append(f"stride={near(min(keys, 70))}")
    if rng.random() < 0.15:
        terms.append(f"random={near(3)}:{small()}:{rng.integers(2**64, dtype=np.uint64)}")
    if rng.random() < 0.15:
        size = small()
        maps = () if rng.random() < 0.5 else (choose(rng, 1, heads),)
        blocks = rng.random((*maps, -(-queries // size), -(-keys // size))) < rng.random()
        np.save(directory / "blocks.npy", blocks)
        terms.append(f"blocks={directory / 'blocks.npy'}:{size}")
    if rng.random() < 0.12:
        topk = near(keys)
        terms.append(f"topk={topk}")
    rng.shuffle(terms)
    return ",".join(terms) or "dense", blocks, topk


def draw_broadcast(rng, target):
    """A shape that NumPy broadcasts to `target`: dimensions of size 1, leading ones left out."""
    shape = [size if rng.random() < 0.6 else 1 for size in target]
    return tuple(shape[rng.integers(5) :]) if rng.random() < 0.5 else tuple(shape)


def draw_data(rng, shape):
    """Values of one of several characters, exactly float32 (and float16 where they are stored so)."""
    batch, heads, kv_heads, queries, keys = shape
    dim, value_dim = int(choose(rng, *DIMS)), int(choose(rng, *DIMS))
    if rng.random() < 0.03:
        value_dim = 0
    spread = float(choose(rng, 0.01, 1, 1, 1, 4))
    q = rng.standard_normal((batch, heads, queries, dim)) * spread
    k = rng.standard_normal((batch, kv_heads, keys, dim)) * spread
    v = rng.standard_normal((batch, kv_heads, keys, value_dim)) + float(choose(rng, 0, 0, 3))
    if rng.random() < 0.15:
        k *= np.linspace(0.1, 2, keys)[:, None] if keys else 1  # scores that grow along the keys
    return q, k, v


def draw_extras(rng, shape):
    """Optional inputs, and what of the mask they decide."""
    batch, heads, _, queries, keys = shape
    extra = {}
    if rng.random() < 0.25:
        lens = rng.integers(0, keys + 1, batch if rng.random() < 0.8 else ())
        extra["kv-lens"] = np.asarray(lens).astype(choose(rng, *("i2", "i4", "i8", "u2", ">i4", "u8")))
    if rng.random() < 0.25:
        low, high = -queries - 3, keys + 3
        offsets = np.clip(rng.integers(low, high, batch if rng.random() < 0.8 else ()), -128, 4500)
        kinds = ("i2", "i4", "i8", ">i8") if offsets.size and offsets.min() < 0 else ("u2", "u8", ">u4", "i4")
        extra["q-offsets"] = np.asarray(offsets).astype(choose(rng, *kinds))
    if rng.random() < 0.2:
        ids = np.sort(rng.integers(0, 5, (batch, keys) if rng.random() < 0.7 else keys), axis=-1)
        extra["segments"] = ids.astype(choose(rng, *INTEGERS))
    if rng.random() < 0.25:
        extra["mask"] = np.asarray(rng.random(draw_broadcast(rng, (batch, heads, queries, keys))) < 0.7)
    if rng.random() < 0.25:
        bias = rng.standard_normal(draw_broadcast(rng, (batch, heads, queries, keys)))
        bias = np.where(rng.random(bias.shape) < choose(rng, 0, 0.2), -np.inf, bias)
        extra["bias"] = np.asarray(bias).astype(choose(rng, "f2", "f4", "f8", ">f4"))
    if rng.random() < 0.2:
        sink = np.asarray(rng.standard_normal(heads if rng.random() < 0.8 else ()) * 2)
        extra["sink-logit"] = np.where(rng.random(sink.shape) < 0.2, -np.inf, sink).astype("f4")
    return extra


def effective_mask(pattern, blocks, extra, shape):
    """(B,H,Nq,Nk) of everything but bias and topk, and where the queries stand, (B,Nq)."""
    batch, heads, _, queries, keys = shape
    masks, places = [], []
    offsets = np.broadcast_to(extra["q-offsets"].astype(np.int64), batch) if "q-offsets" in extra else None
    lens = np.broadcast_to(extra.get("kv-lens", np.array(keys)).astype(np.int64), batch)
    for b in range(batch):
        offset = None if offsets is None else int(offsets[b])
        mask = attended(pattern, queries, keys, offset, blocks)
        mask = np.broadcast_to(mask, (heads, queries, keys)) & (np.arange(keys) < lens[b])
        p = positions(pattern, queries, keys, offset)
        if "segments" in extra:
            ids = np.broadcast_to(extra["segments"], (batch, keys))[b]
            inside = (p >= 0) & (p < keys)
            own = ids[np.clip(p, 0, max(keys - 1, 0))] if keys else p
            mask = mask & inside[:, None] & (own[:, None] == ids[None, :])
        masks.append(mask)
        places.append(p)
    mask = np.reshape(masks, (batch, heads, queries, keys)).astype(bool)
    if "mask" in extra:
        mask = mask & extra["mask"]
    return mask, np.reshape(places, (batch, queries))


def draw_case(rng, directory) -> Case:
    shape = draw_shape(rng)
    batch, heads, kv_heads, queries, keys = shape
    pattern, blocks, topk = draw_pattern(rng, heads, queries, keys, directory)
    extra = draw_extras(rng, shape)
    mask, position = effective_mask(pattern, blocks, extra, shape)
    q, k, v = draw_data(rng, shape)
    options, oracle = [f"--pattern={pattern}"], {"position": position, "topk": topk}
    if rng.random() < 0.2:
        oracle["scale"] = float(np.float32(choose(rng, 0, -0.5, 1, rng.standard_normal())))
        options.append(f"--scale={oracle['scale']:.9g}")
    if rng.random() < 0.2:
        oracle["softcap"] = float(choose(rng, 0.5, 2, 30))
        options.append(f"--softcap={oracle['softcap']}")
    if rng.random() < 0.2:
        oracle["slope"] = slopes(heads)
        options.append("--alibi")
    if "bias" in extra:
        oracle["bias"] = extra["bias"].astype(np.float32)
    if "sink-logit" in extra:
        oracle["sink"] = np.broadcast_to(extra["sink-logit"], heads)
    dtype = choose(rng, "f32", "f32", "f16", "bf16")
    if dtype != "f32":
        options.append(f"--dtype={dtype}")
    files = [x.astype(choose(rng, *FLOATS)) for x in (q, k, v)]
    q, k, v = (STORED[dtype](x.astype(np.float32)) for x in files)
    case = Case(
        batch, heads, kv_heads, queries, keys, pattern, topk, *files, options, extra, oracle, mask, dtype
    )
    case.oracle |= {"q": q, "k": k, "v": v, "mask": mask}
    return case


def poison(rng, case: Case) -> None:
    """NaN and Inf in keys and values that no query attends, and in the bias of masked pairs."""
    bias = case.oracle.get("bias", np.zeros(()))
    mask = case.mask & (bias != -np.inf)
    rows = case.heads // case.kv_heads * case.queries
    used = mask.reshape(case.batch, case.kv_heads, rows, case.keys).any(axis=2)
    for x, value in ((case.k, choose(rng, np.nan, np.inf)), (case.v, choose(rng, np.nan, -np.inf))):
        x[~used] = value
    if "bias" in case.extra and case.extra["bias"].shape == mask.shape:
        case.extra["bias"][~case.mask] = choose(rng, np.nan, np.inf, -np.inf)


def save(rng, tensors, case: Case) -> list[str]:
    """Writes the arrays in a layout and a rank that fit them; returns the options that say so."""
    arrays = {"q": case.q, "k": case.k, "v": case.v}
    options = []
    if case.batch == 1 and rng.random() < 0.4:
        arrays = {name: x[0] for name, x in arrays.items()}
        if case.heads == 1 and rng.random() < 0.6:
            arrays = {name: x[0] for name, x in arrays.items()}
    if rng.random() < 0.3:
        options.append("--layout=bnhd")
        if arrays["q"].ndim > 2:
            arrays = {name: np.ascontiguousarray(x.swapaxes(-3, -2)) for name, x in arrays.items()}
    tensors.save(**arrays, **case.extra)
    return options + [f"--{name}={tensors.path(name)}" for name in case.extra]


def bhnd(x, case: Case, layout: bool, *tail: int) -> np.ndarray:
    """An output of eval as (B,H,Nq,*tail); its own shape is Q's with `tail` for D."""
    lead = (case.batch, case.queries, case.heads) if layout else (case.batch, case.heads, case.queries)
    x = x.reshape(*lead, *tail)
    return x.swapaxes(1, 2) if layout else x


def check_counts(values, case: Case, result) -> None:
    """The counts of --explain against the oracle's mask, tile by tile for flash."""
    counts = {key: int(value) for key, value in values.items() if key.startswith(("tiles_", "pairs_"))}
    height, width = int(values["query_tile"]), int(values["key_tile"])
    heads = case.batch * case.heads
    assert counts["pairs_dense"] == heads * case.queries * case.keys
    assert counts["pairs_useful"] == result.mask.sum()
    assert counts["pairs_useful"] <= counts["pairs_executed"] <= counts["pairs_dense"]
    tiles = heads * -(-case.queries // height) * -(-case.keys // width)
    assert counts["tiles_full"] + counts["tiles_partial"] + counts["tiles_absent"] == tiles
    if values["algorithm"] != "flash":
        return
    # What flash visits is what its tiles hold: none that nobody attends, and no key past a length.
    lens = case.extra.get("kv-lens", np.array(case.keys)).astype(np.int64)
    lens = np.broadcast_to(lens, case.batch)
    full = partial = executed = 0
    for b in range(case.batch):
        for i in range(0, case.queries, height):
            for j in range(0, int(lens[b]), width):
                tile = result.mask[b, :, i : i + height, j : min(j + width, lens[b])]
                some, every = tile.any(axis=(1, 2)), tile.all(axis=(1, 2))
                full += every.sum()
                partial += (some & ~every).sum()
                executed += some.sum() * tile[0].size
    assert (counts["tiles_full"], counts["tiles_partial"]) == (full, partial)
    assert counts["pairs_executed"] == executed


@pytest.mark.parametrize("index", range(CASES))
def test_random_options(attnscope, tensors, levels, index):
    """Any options together: output, log-sum-exp, weights, effective mask and counts are the oracle's, on
    one algorithm and level drawn for the case."""
    rng = np.random.default_rng((SEED, index))
    print(f"ATTNSCOPE_TEST_SEED={SEED}, case {index}")
    while True:
        case = draw_case(rng, tensors.directory)
        result = compute(**case.oracle)
        if result.topk_gap > 4:  # else rounding may choose another key
            break
    if rng.random() < 0.4:
        poison(rng, case)
    algorithm = choose(rng, "naive", "auto") if case.topk else choose(rng, "naive", "flash", "flash", "auto")
    options = [*case.options, *save(rng, tensors, case), "--explain"]
    options += [
        f"--algorithm={algorithm}",
        f"--isa={choose(rng, *levels)}",
        f"--threads={choose(rng, 1, 2, 3)}",
    ]
    outputs = [name for name in ("lse", "weights", "mask-out") if rng.random() < 0.6]
    outputs = [name for name in outputs if name != "mask-out" or not case.topk]
    options += [f"--{name}={tensors.path(name)}" for name in outputs]
    print(f"B={case.batch} H={case.heads}/{case.kv_heads} Nq={case.queries} Nk={case.keys}")
    print(" ".join(options))

    outcome = attnscope(*tensors.arguments(*options))
    assert (outcome.code, outcome.err) == (0, "")
    layout = "--layout=bnhd" in options and tensors.load("q").ndim > 2
    assert tensors.load("out").shape == (*tensors.load("q").shape[:-1], result.out.shape[-1])
    assert_close(
        bhnd(tensors.load("out"), case, layout, result.out.shape[-1]), result.out, result.out_tolerance
    )
    if "lse" in outputs:
        assert_close(bhnd(tensors.load("lse"), case, layout), result.lse, result.lse_tolerance)
    if "weights" in outputs:
        weights = tensors.load("weights")
        assert weights.ndim == tensors.load("q").ndim and weights.dtype == np.float32
        assert_close(weights.reshape(result.weights.shape), result.weights, result.weights_tolerance)
    if "mask-out" in outputs:
        mask = tensors.load("mask-out")
        per_batch = {"kv-lens", "q-offsets", "segments"} & set(case.extra)
        assert mask.shape[0] == case.batch or not per_batch
        np.testing.assert_array_equal(np.broadcast_to(mask, result.mask.shape), result.mask)
    check_counts(outcome.values(), case, result)
