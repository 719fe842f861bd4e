"""The operators in NumPy float64, token by token, written from the equations alone.

Independent of the package and of the C code: plain loops over tokens, heads by broadcasting, layouts
undone by transposition. Inputs are float64 arrays that hold exactly the values the operator gets.
"""
from __future__ import annotations

import numpy as np


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0, -x))


def l2(x: np.ndarray, eps: float = 1e-6) -> np.ndarray:
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + eps)


def recurrence(q, k, v, a, beta, state, scale, *, trace=None):
    """One sequence. q, k [T,H,K], v [T,H,V], a [T,H,K] or [T,H,1], beta [T,H], state [H,V,K] (copied).

    Returns (out [T,H,V], state). ``trace`` collects (u, state) after every token.
    """
    state, out = state.copy(), np.zeros(v.shape)
    for t in range(len(q)):
        state = state * a[t][:, None, :]
        u = beta[t][:, None] * (v[t] - np.einsum("hvk,hk->hv", state, k[t]))
        state = state + u[:, :, None] * k[t][:, None, :]
        out[t] = scale * np.einsum("hvk,hk->hv", state, q[t])
        if trace is not None:
            trace.append((u, state))
    return out, state


def group(x: np.ndarray, value_heads: int) -> np.ndarray:
    """[T,Hk,K] -> [T,Hv,K], grouped."""
    return np.repeat(x, value_heads // x.shape[1], axis=1)


def chunk_gated_delta_rule(query, key, value, beta, state, lengths, g=None, scale_value=1.0):
    out, final = np.zeros(value.shape), np.zeros(state.shape)
    heads = value.shape[1]
    for b, length in enumerate(lengths):
        def rows(x):
            return x[b].swapaxes(0, 1)[:length]
        a = np.ones((length, heads, 1)) if g is None else np.exp(rows(g))[:, :, None]
        o, s = recurrence(group(rows(query), heads), group(rows(key), heads), rows(value), a, rows(beta),
                          state[b].swapaxes(-1, -2), scale_value)
        out[b].swapaxes(0, 1)[:length] = o
        final[b] = s.swapaxes(-1, -2)
    return out, final


def kda_gate(g, A_log, dt_bias, lower_bound):
    return np.exp(lower_bound * sigmoid(np.exp(A_log)[:, None] * (g + dt_bias)))


def spans(layout, batch, tokens, cu_seqlens):
    """(sequence, first, last) in each layout; padded layouts may carry lengths in cu_seqlens."""
    if layout == "TND":
        return [(0, int(a), int(b)) for a, b in zip(cu_seqlens, cu_seqlens[1:])]
    if cu_seqlens is None:
        return [(b, 0, tokens) for b in range(batch)]
    return [(b, 0, int(cu_seqlens[b + 1] - cu_seqlens[b])) for b in range(batch)]


def to_bsnd(x: np.ndarray, layout: str) -> np.ndarray:
    """[..] of any layout -> a view [B,S,N,..]; TND gets B = 1."""
    return x[None] if layout == "TND" else x.swapaxes(1, 2) if layout == "BNSD" else x


def unpack(mixedqkv: np.ndarray, layout: str):
    """q, k, v [B,S,N,128] of the packed tensor."""
    if layout == "BNSD":
        q, k, v = np.split(mixedqkv, 3, axis=1)
        return tuple(x.swapaxes(1, 2) for x in (q, k, v))
    x = mixedqkv if layout == "BSND" else mixedqkv[None]
    x = x.reshape(*x.shape[:2], 3, -1, 128)
    return x[:, :, 0], x[:, :, 1], x[:, :, 2]


def kda(q, k, v, g, beta, scale, initial, A_log, dt_bias, lower_bound, layout, cu_seqlens=None):
    """All KDA operators' core on [B,S,H,..] views: per sequence (out, final, trace, decay, k)."""
    results = []
    scale = 128 ** -0.5 if scale is None else scale
    heads = v.shape[2]
    for i, (b, first, last) in enumerate(spans(layout, q.shape[0], q.shape[1], cu_seqlens)):
        def rows(x):
            return x[b, first:last]
        a = kda_gate(rows(g), A_log, dt_bias, lower_bound)
        kn, trace = l2(rows(k)), []
        out, state = recurrence(group(l2(rows(q)), heads), group(kn, heads), rows(v), a,
                                sigmoid(rows(beta)), initial(i), scale, trace=trace)
        results.append((b, first, last, out, state, trace, a, kn))
    return results


def verify(mixedqkv, recurrent_state, beta, g, scale, A_log, dt_bias, lower_bound, layout, capacity,
           cu_seqlens=None):
    """(out in g's layout, records u, k, decay [B,C,N,128] with NaN where nothing is written)."""
    q, k, v = unpack(mixedqkv, layout)
    out = np.zeros(g.shape)
    records = [np.full((len(recurrent_state), capacity, g.shape[1 if layout == "BNSD" else -2], 128), np.nan)
               for _ in range(3)]
    results = kda(q, k, v, to_bsnd(g, layout), to_bsnd(beta, layout)[..., 0], scale,
                  lambda i: recurrent_state[i], A_log, dt_bias, lower_bound, layout, cu_seqlens)
    for i, (b, first, last, o, _, trace, a, kn) in enumerate(results):
        to_bsnd(out, layout)[b, first:last] = o
        for t, (u, _) in enumerate(trace):
            records[0][i, t], records[1][i, t], records[2][i, t] = u, kn[t], a[t]
    return out, records


def commit(recurrent_state, u, k, decay, accepted):
    state = recurrent_state.copy()
    for b, count in enumerate(accepted):
        for i in range(count):
            state[b] = state[b] * decay[b, i][:, None, :] + u[b, i][:, :, None] * k[b, i][:, None, :]
    return state


def flash_kda(q, k, v, g, beta, scale, initial_state, A_log, dt_bias, lower_bound, layout, cu_seqlens=None):
    out, final = np.zeros(v.shape), np.zeros(initial_state.shape)
    results = kda(*(to_bsnd(x, layout) for x in (q, k, v, g, beta)), scale, lambda i: initial_state[i],
                  A_log, dt_bias, lower_bound, layout, cu_seqlens)
    for i, (b, first, last, o, state, *_) in enumerate(results):
        to_bsnd(out, layout)[b, first:last] = o
        final[i] = state
    return out, final


def fused_recurrent_kda(mixedqkv, state, beta, g, scale, A_log, dt_bias, lower_bound, layout,
                        cu_seqlens=None, indices=None, accepted=None):
    q, k, v = unpack(mixedqkv, layout)
    tokens = q.shape[0] * q.shape[1]
    indices = np.arange(tokens) if indices is None else indices
    pool, out = state.copy(), np.zeros(g.shape)
    starts = [b * q.shape[1] + first for b, first, _ in spans(layout, q.shape[0], q.shape[1], cu_seqlens)]
    counts = np.ones(len(starts), int) if accepted is None else accepted
    results = kda(q, k, v, to_bsnd(g, layout), to_bsnd(beta, layout)[..., 0], scale,
                  lambda i: state[indices[starts[i] + max(counts[i], 1) - 1]], A_log, dt_bias, lower_bound,
                  layout, cu_seqlens)
    for i, (b, first, last, o, _, trace, *_) in enumerate(results):
        to_bsnd(out, layout)[b, first:last] = o
        for t, (_, after) in enumerate(trace):
            pool[indices[starts[i] + t]] = after
    return pool, out


def relative(actual: np.ndarray, expected: np.ndarray) -> float:
    """Relative L2 error."""
    return float(np.linalg.norm(actual - expected) / max(np.linalg.norm(expected), 1e-12))
