"""Attention in float64, from the definition, in NumPy, and how far float32 may be from it.

Independent of the C sources: masks are drawn from the terms' definitions, pair by pair.
"""

import dataclasses

import numpy as np

EPS = 2.0**-23
TINY = 2.0**-126  # the least normal float32


def split_terms(pattern: str) -> dict[str, str]:
    """Terms and their values; of `blocks=FILE:B` only B, so FILE may hold no comma."""
    return dict(term.partition("=")[::2] for term in pattern.split(","))


def mix(x: int) -> int:
    """SplitMix64's output for state x."""
    x = (x + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def random_blocks(count: int, size: int, seed: int, queries: int, keys: int) -> np.ndarray:
    """The block map (query blocks, key blocks) that random=count:size:seed draws."""
    rows, columns = -(-queries // size), -(-keys // size)
    blocks = np.zeros((rows, columns), bool)
    for a in range(rows):
        t = 0
        while blocks[a].sum() < min(count, columns):
            blocks[a, mix(mix(mix(seed) ^ a) ^ t) % columns] = True
            t += 1
    return blocks


def spread_blocks(blocks: np.ndarray, size: int, queries: int, keys: int) -> np.ndarray:
    """A block map (.., query blocks, key blocks) pair by pair (.., queries, keys)."""
    i, j = np.arange(queries) // size, np.arange(keys) // size
    return blocks[..., i[:, None], j[None, :]]


def positions(pattern: str, queries: int, keys: int, offset: int | None = None) -> np.ndarray:
    """Where each query stands among the keys: (queries,)."""
    if offset is None:
        offset = 0 if "causal-top-left" in split_terms(pattern) else keys - queries
    return np.arange(queries) + offset


def attended(pattern: str, queries: int, keys: int, offset=None, blocks=None) -> np.ndarray:
    """The boolean mask (queries, keys) of a pattern without its topk; (H, queries, keys) when `blocks`,
    the map of a term blocks=FILE:B, has one map per head."""
    terms = split_terms(pattern)
    i = np.arange(queries)[:, None]
    j = np.arange(keys)[None, :]
    p = positions(pattern, queries, keys, offset)[:, None]
    mask = np.ones((queries, keys), bool)
    if "causal" in terms:
        mask &= j <= p
    if "causal-top-left" in terms:
        mask &= j <= i
    if "prefix" in terms:
        mask |= j < int(terms["prefix"])
    if "chunk" in terms:
        mask &= j // int(terms["chunk"]) == p // int(terms["chunk"])
    selections = []
    if "window" in terms:
        left, colon, right = terms["window"].partition(":")
        if not colon:
            left, right = int(left) - 1, 0
        left, right = (np.inf if side == "inf" else int(side) for side in (left, right))
        selections.append((j >= p - left) & (j <= p + right))
    if "sink" in terms:
        selections.append(j < int(terms["sink"]) + 0 * p)
    if "global" in terms:
        g = int(terms["global"])
        selections.append((j < g) | ((p >= 0) & (p < g)))
    if "stride" in terms:
        selections.append((p - j) % int(terms["stride"]) == 0)
    if "random" in terms:
        count, size, seed = map(int, terms["random"].split(":"))
        drawn = random_blocks(count, size, seed, queries, keys)
        selections.append(spread_blocks(drawn, size, queries, keys))
    if "blocks" in terms:
        size = int(terms["blocks"].rpartition(":")[2])
        selections.append(spread_blocks(blocks, size, queries, keys))
    if selections:
        mask = mask & np.logical_or.reduce(np.broadcast_arrays(*selections))
    return mask


def slopes(heads: int) -> np.ndarray:
    """ALiBi's slopes by the rule of its authors' own code."""

    def power_of_two(n):
        start = 2 ** (-(2 ** -(np.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    closest = 2 ** int(np.floor(np.log2(heads)))
    return np.array(power_of_two(closest) + power_of_two(2 * closest)[0::2][: heads - closest])


def bfloat16(x: np.ndarray) -> np.ndarray:
    """Rounds finite float32 to bfloat16, to nearest even, kept as float32."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


# What --dtype makes of float32, kept as float32.
STORED = {"f32": lambda x: x, "f16": lambda x: x.astype(np.float16).astype(np.float32), "bf16": bfloat16}


@dataclasses.dataclass
class Result:
    """What attention gives, in float64, and how far float32 may be from it, element by element."""

    out: np.ndarray  # B, H, Nq, Dv
    lse: np.ndarray  # B, H, Nq
    weights: np.ndarray  # B, H, Nq, Nk
    mask: np.ndarray  # B, H, Nq, Nk: the pairs attended, topk included
    out_tolerance: np.ndarray
    lse_tolerance: np.ndarray
    weights_tolerance: np.ndarray
    topk_gap: float  # least distance of a K-th score to the next, in units of what rounding may do to both


def keep_topk(scores, rounding, mask, count):
    """Of each row's attended scores the `count` largest, equal ones by the lower index; and the gap."""
    order = np.argsort(np.where(mask, -scores, np.inf), axis=-1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(scores.shape[-1]), order.shape), axis=-1)
    kept = mask & (rank < count)
    least = np.where(kept, scores, np.inf).min(axis=-1, initial=np.inf)
    dropped = mask & ~kept
    most = np.where(dropped, scores, -np.inf).max(axis=-1, initial=-np.inf)
    cut = dropped.any(axis=-1)
    doubt = 2 * np.where(mask, rounding, 0).max(axis=-1, initial=0) + TINY
    gap = ((least[cut] - most[cut]) / doubt[cut]).min(initial=np.inf)
    return kept, gap


def compute(
    q, k, v, mask, scale=None, softcap=0.0, bias=0.0, slope=None, sink=None, position=None, topk=None
) -> Result:
    """Attention on q (B,H,Nq,D), k and v (B,Hkv,Nk,.).

    mask broadcasts to (B,H,Nq,Nk), slope and sink are (H,), position broadcasts to (B,Nq) and says where
    queries stand (for ALiBi; Nk - Nq + i unless given). Tolerances: rounding of the scores (D products
    each), of the exponential and of sums over Nk.
    """
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    batch, heads, queries, dim = q.shape
    keys = k.shape[2]
    k, v = (np.repeat(x, heads // x.shape[1], axis=1) for x in (k, v))
    scale = 1 / np.sqrt(dim) if scale is None else scale
    scores = scale * np.einsum("bhid,bhjd->bhij", q, k)
    rounding = (dim + 4) * EPS * abs(scale) * np.einsum("bhid,bhjd->bhij", abs(q), abs(k))
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
        rounding = rounding + 8 * EPS * abs(scores)
    if slope is not None:
        if position is None:
            position = np.arange(queries) + keys - queries
        distance = abs(np.broadcast_to(position, (batch, queries))[:, None, :, None] - np.arange(keys))
        scores = scores - slope[None, :, None, None] * distance
        rounding = rounding + 3 * EPS * slope[None, :, None, None] * distance
    bias = np.broadcast_to(np.asarray(bias, np.float64), scores.shape)
    mask = np.broadcast_to(mask, scores.shape) & (bias != -np.inf)
    scores = np.where(mask, scores + np.where(mask, bias, 0), -np.inf)
    finite = np.where(mask, scores, 0)
    rounding = np.where(mask, rounding + EPS * (abs(np.where(mask, bias, 0)) + abs(finite)), 0)
    gap = np.inf
    if topk is not None:
        mask, gap = keep_topk(finite, rounding, mask, topk)
        scores = np.where(mask, scores, -np.inf)
        rounding = np.where(mask, rounding, 0)

    top = scores.max(axis=-1, initial=-np.inf)
    if sink is not None:
        top = np.maximum(top, np.asarray(sink, np.float64)[None, :, None])
    shift = np.where(np.isfinite(top), top, 0)[..., None]
    weight = np.exp(scores - shift)
    total = weight.sum(axis=-1)
    if sink is not None:
        total = total + np.exp(np.asarray(sink, np.float64)[None, :, None] - shift[..., 0])
    weight = np.divide(weight, total[..., None], out=np.zeros_like(weight), where=total[..., None] > 0)
    out = np.einsum("bhij,bhjd->bhid", weight, v)
    with np.errstate(divide="ignore"):
        lse = shift[..., 0] + np.log(total)

    spread = np.where(mask, np.abs(scores - shift), 0).max(axis=-1, initial=0)
    relative = 2 * rounding.max(axis=-1, initial=0) + EPS * (spread + 8 + keys)
    return Result(
        out=out,
        lse=lse,
        weights=weight,
        mask=mask,
        # Weights below the normal range may be flushed to zero.
        out_tolerance=relative[..., None] * np.einsum("bhij,bhjd->bhid", weight, abs(v))
        + TINY * (1 + np.einsum("bhij,bhjd->bhid", mask, abs(v))),
        lse_tolerance=relative + EPS * abs(np.where(np.isfinite(lse), lse, 0)),
        weights_tolerance=np.where(mask, relative[..., None] * weight + TINY, 0),
        topk_gap=gap,
    )


def attention(q, k, v, mask, offset=None, **options):
    """Output and log-sum-exp of `compute` and the tolerance of each; offset is (B,), as in q_offsets."""
    if offset is not None:
        options["position"] = np.arange(np.shape(q)[2]) + np.asarray(offset)[:, None]
    result = compute(q, k, v, mask, **options)
    return result.out, result.lse, result.out_tolerance, result.lse_tolerance


def assert_close(actual, expected, tolerance) -> float:
    """Every element within its tolerance (0: exactly); what is not finite must be met exactly. Prints and
    returns the largest part of a tolerance that was used."""
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected)
    assert actual.shape == expected.shape
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(actual[~finite], expected[~finite])
    assert np.isfinite(actual[finite]).all()
    error = np.abs(actual[finite] - expected[finite])
    allowed = np.broadcast_to(tolerance, expected.shape)[finite]
    used = np.divide(error, allowed, out=np.where(error > 0, np.inf, 0.0), where=allowed > 0)
    worst = used.max(initial=0)
    print(f"worst error is {worst:.3f} of its tolerance")
    assert worst <= 1
    return worst
