"""Attention in float64, from the definition, in NumPy, and how far float32 may be from it.

Independent of the C sources: masks are drawn from the terms' definitions, pair by pair.
"""

import numpy as np

EPS = 2.0**-23


def attended(pattern: str, queries: int, keys: int, offset: int | None = None) -> np.ndarray:
    """The boolean mask (queries, keys) of a pattern of restrictions and interval selections."""
    i = np.arange(queries)[:, None]
    j = np.arange(keys)[None, :]
    terms = dict(term.partition("=")[::2] for term in pattern.split(","))
    p = i + (keys - queries if offset is None else offset)
    if "causal-top-left" in terms:
        p = i
    mask = np.ones((queries, keys), bool)
    if "causal" in terms or "causal-top-left" in terms:
        mask = j <= p
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
    if selections:
        mask &= np.logical_or.reduce(np.broadcast_arrays(*selections))
    return np.broadcast_to(mask, (queries, keys))


def slopes(heads: int) -> np.ndarray:
    """ALiBi's slopes by the rule of its authors' own code."""

    def power_of_two(n):
        start = 2 ** (-(2 ** -(np.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    closest = 2 ** int(np.floor(np.log2(heads)))
    return np.array(power_of_two(closest) + power_of_two(2 * closest)[0::2][: heads - closest])


def attention(
    q, k, v, mask, scale=None, softcap=0.0, bias=0.0, slope=None, sink=None, offset=None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Output (B,H,Nq,Dv) and log-sum-exp (B,H,Nq) in float64, and the tolerance of each.

    q (B,H,Nq,D), k and v (B,Hkv,Nk,.), mask broadcasts to (B,H,Nq,Nk), slope and sink (H,), offset (B,).
    The tolerance: rounding of the scores (D products each), of the exponential and of sums over Nk.
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
        offsets = np.full(batch, keys - queries) if offset is None else np.asarray(offset)
        p = np.arange(queries)[None, :, None] + offsets[:, None, None]
        distance = abs(p - np.arange(keys))[:, None]
        scores = scores - slope[None, :, None, None] * distance
        rounding = rounding + 3 * EPS * slope[None, :, None, None] * distance
    bias = np.broadcast_to(np.asarray(bias, np.float64), scores.shape)
    mask = np.broadcast_to(mask, scores.shape) & (bias != -np.inf)
    scores = np.where(mask, scores + np.where(mask, bias, 0), -np.inf)
    rounding = np.where(mask, rounding + EPS * (abs(np.where(mask, bias, 0)) + abs(scores)), 0)

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
    out_tolerance = relative[..., None] * np.einsum("bhij,bhjd->bhid", weight, abs(v)) + 1e-37
    lse_tolerance = relative + EPS * abs(np.where(np.isfinite(lse), lse, 0))
    return out, lse, out_tolerance, lse_tolerance


def assert_close(actual, expected, tolerance) -> None:
    """Every element within its tolerance; what is not finite must be met exactly; rows that are zero
    because nothing is attended must be exactly zero."""
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected)
    assert actual.shape == expected.shape
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(actual[~finite], expected[~finite])
    assert np.isfinite(actual[finite]).all()
    error = np.abs(actual[finite] - expected[finite])
    used = error / np.broadcast_to(tolerance, expected.shape)[finite]
    worst = used.max(initial=0)
    print(f"worst error is {worst:.3f} of its tolerance")
    assert worst <= 1
