"""docs/ENGINES.md: every row makes a plan, and computes what its engine computes.

The rows' choices come from the page's tables. What each engine computes is written here a second time, in
its own terms: how it makes the decay and beta, which key head it reads, how its state lies in memory.
"""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import redelta
from conftest import Kind, raw
from oracle import l2, sigmoid

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ENGINES.md"
NUMPY = Kind("numpy")
pytestmark = pytest.mark.quick


def tables() -> dict[str, dict[str, str]]:
    """row -> column -> cell, of both tables."""
    rows: dict[str, dict[str, str]] = {}
    header: list[str] = []
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            header = []
        elif cells[0] == "row":
            header = cells
        elif header and not set(cells[0]) <= {"-"}:
            rows.setdefault(cells[0], {}).update(zip(header[1:], cells[1:]))
    return rows


ROWS = tables()


def choices(row: dict[str, str]) -> dict[str, Any]:
    made: dict[str, Any] = dict(gate=row["gate"], gate_axis=row["axis"], beta=row["beta"],
                                beta_times=int(row["times"]), qk_norm=row["q, k"],
                                head_map=row["heads"], state_layout=row["state"],
                                scale=None if row["scale"] == "K^-1/2" else float(row["scale"]))
    if row["eps"] != "-":
        made["l2_eps"] = float(row["eps"])
    return made


def types(row: dict[str, str]) -> dict[str, str]:
    return dict(qkv_dtype=row["q, k, v"], gate_dtype=row["g"], beta_dtype=row["beta type"],
                out_dtype=row["out"], state_dtype=row["states"], record_dtype=row["u, k records"],
                decay_dtype=row["decay record"])


# ---------------------------------------------------------------- the engines' own words ----------

def qwen_gate(g, A_log, dt_bias):
    """g = -A_log.exp() * softplus(a + dt_bias), then g.exp()"""
    return np.exp(-np.exp(A_log) * np.log1p(np.exp(g + dt_bias)))


def bounded_gate(g, A_log, dt_bias):
    return np.exp(-5.0 * sigmoid(np.exp(A_log) * (g + dt_bias)))


def exponent(g, A_log, dt_bias):
    return np.exp(g)


def no_gate(g, A_log, dt_bias):
    return np.ones_like(g)


def given(beta):
    return beta


def doubled(b):
    return sigmoid(b) * 2.0


def fla_norm(x):
    return l2(x, 1e-6)


def ort_norm(x):
    return l2(x, 1e-12)


def repeat_interleave(x, Hv):
    return np.repeat(x, Hv // x.shape[-2], axis=-2)


def modulo(x, Hv):
    return x[..., np.arange(Hv) % x.shape[-2], :]


def key_by_value(S):  # the engine's state as [.., V, K]
    return S.swapaxes(-1, -2)


def value_by_key(S):
    return S


# row: gate, channels, beta, normalisation, heads, state, scale(K)
HF = (fla_norm, repeat_interleave, key_by_value)
ENGINES = {
    "Qwen3-Next": (qwen_gate, False, sigmoid, *HF),
    "Qwen3.5": (qwen_gate, False, sigmoid, *HF),
    "OLMo-hybrid": (qwen_gate, False, doubled, *HF),
    "Kimi-Linear": (qwen_gate, True, sigmoid, *HF),
    "Kimi-Linear, lower bound": (bounded_gate, True, sigmoid, *HF),
    "FLA chunk_gated_delta_rule": (exponent, False, given, *HF),
    "FLA chunk_kda": (exponent, True, given, *HF),
    "ggml GATED_DELTA_NET": (exponent, False, given, given, modulo, value_by_key),
    "ggml GATED_DELTA_NET, g [S]": (exponent, True, given, given, modulo, value_by_key),
    "ORT GatedDeltaNet": (exponent, False, given, given, repeat_interleave, value_by_key),
    "ORT GatedDeltaNet, qwen": (qwen_gate, False, sigmoid, ort_norm, repeat_interleave, value_by_key),
    "ONNX LinearAttention, gated_delta": (exponent, False, given, given, repeat_interleave, key_by_value),
    "ONNX LinearAttention, delta": (no_gate, False, given, given, repeat_interleave, key_by_value),
}
OPERATORS = ["chunk_gated_delta_rule", "flash_kda", "fused_recurrent_kda", "fused_recurrent_kda_replayssm"]


def test_the_page_has_all_rows():
    assert list(ROWS) == [*ENGINES, *OPERATORS]
    assert len({len(row) for row in ROWS.values()}) == 1


@pytest.mark.parametrize("name", ROWS)
def test_a_plan_of_its_own_size_and_types(name):
    row = ROWS[name]
    sizes = {size: int(row[size]) for size in ("Hk", "Hv", "K", "V")}
    plan = redelta.Plan(redelta.Problem(**sizes, max_batch=2, max_tokens=8, **choices(row), **types(row)))
    assert plan.info()["snapshot_bytes_per_token"] == 4 * sizes["Hv"] * sizes["K"] * sizes["V"]


@pytest.mark.parametrize("name", ENGINES)
def test_the_engine_s_own_equations(name, rng):
    gate, channels, activate, normalise, heads, turn = ENGINES[name]
    B, T, Hk, Hv, K, V = 2, 5, 2, 6, 24, 40
    if "Kimi" in name or "chunk_kda" in name:
        Hk = Hv
    n = rng.standard_normal
    axis = (K,) if channels else ()
    short = 1e-4 if normalise in (fla_norm, ort_norm) else K ** -0.5  # where an epsilon shows
    q, k = (short * n((B, T, Hk, K)).astype(np.float32) for _ in range(2))
    q, k = (x.astype(np.float32) for x in (q, k))
    v = n((B, T, Hv, V)).astype(np.float32)
    g = n((B, T, Hv, *axis)).astype(np.float32)
    g = -np.abs(g) if gate is exponent else g
    beta = n((B, T, Hv)).astype(np.float32)
    beta = sigmoid(beta).astype(np.float32) if activate is given else beta
    A_log, dt_bias = n(Hv).astype(np.float32), n((Hv, *axis)).astype(np.float32)
    lies = (K, V) if turn is key_by_value else (V, K)
    state = n((B, Hv, *lies)).astype(np.float32)

    plan = redelta.Plan(redelta.Problem(Hk=Hk, Hv=Hv, K=K, V=V, max_batch=B, max_tokens=T,
                                        **choices(ROWS[name])))
    weights = dict(A_log=A_log, dt_bias=dt_bias) if gate in (qwen_gate, bounded_gate) else {}
    final = np.zeros_like(state)
    out = plan.prefill(q, k, v, None if gate is no_gate else g, beta, initial=state, final=final, **weights)

    q64, k64 = (heads(normalise(x.astype(np.float64)), Hv) for x in (q, k))
    decay = gate(g.astype(np.float64), A_log[:, None] if channels else A_log, dt_bias)
    decay = decay if channels else decay[..., None]
    b64 = activate(beta.astype(np.float64))
    S = turn(state.astype(np.float64))
    for t in range(T):
        S = S * decay[:, t, :, None, :]
        error = v[:, t] - np.einsum("bhvk,bhk->bhv", S, k64[:, t])
        S = S + (b64[:, t, :, None] * error)[..., None] * k64[:, t, :, None, :]
        np.testing.assert_allclose(out[:, t], np.einsum("bhvk,bhk->bhv", S, q64[:, t]) * K ** -0.5,
                                   rtol=2e-5, atol=2e-6 * np.abs(out).max())
    np.testing.assert_allclose(turn(final), S, rtol=2e-5, atol=2e-6)


# ---------------------------------------------------------------- the named operators -------------

def operator_plan(name: str, **sizes: int) -> redelta.Plan:
    row = ROWS[name]
    made = {**choices(row), **types(row)}
    return redelta.Plan(redelta.Problem(**sizes, max_batch=2, max_tokens=8, **made))


def test_chunk_gated_delta_rule_is_its_row(rng):
    B, T, Hk, Hv, K, V = 2, 5, 2, 4, 32, 16
    n = lambda *shape: rng.standard_normal(shape).astype(np.float16)  # noqa: E731
    q, k, v, beta = n(B, Hk, T, K), n(B, Hk, T, K), n(B, Hv, T, V), n(B, Hv, T)
    q, k = q / np.float16(8), k / np.float16(8)
    state, g = n(B, Hv, K, V), -np.abs(rng.standard_normal((B, Hv, T))).astype(np.float32)
    out, final = redelta.chunk_gated_delta_rule(q, k, v, beta, state, np.array([T, T], np.int32), g)
    plan, mine = operator_plan("chunk_gated_delta_rule", Hk=Hk, Hv=Hv, K=K, V=V), np.zeros_like(state)
    turned = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in (q, k, v, g, beta)]
    got = plan.prefill(*turned, initial=state, final=mine)
    assert raw(got.swapaxes(1, 2)) == raw(out) and raw(mine) == raw(final)


@pytest.mark.parametrize("name", ["flash_kda", "fused_recurrent_kda", "fused_recurrent_kda_replayssm"])
def test_a_kda_operator_is_its_row(name, rng):
    pytest.importorskip("ml_dtypes")
    B, S, N, D = 2, 3, 2, 128
    n = lambda *shape: NUMPY.make(rng.standard_normal(shape), "bfloat16")  # noqa: E731
    q, k, v, g = (n(B, S, N, D) for _ in range(4))
    q, k = (NUMPY.make(x.astype(np.float32) / 512, "bfloat16") for x in (q, k))  # where the epsilon shows
    beta = n(B, S, N)
    A_log, dt_bias = rng.standard_normal(N).astype(np.float32), rng.standard_normal((N, D)).astype(np.float32)
    state = rng.standard_normal((B, N, D, D)).astype(np.float32) / 8
    plan, final = operator_plan(name, Hk=N, Hv=N, K=D, V=D), np.zeros_like(state)
    mixed = np.concatenate([x.reshape(B, S, -1) for x in (q, k, v)], axis=-1)
    if name == "flash_kda":
        out, end = redelta.flash_kda(q, k, v, g, beta, None, state, A_log, dt_bias, layout_qkv="BSND")
    elif name == "fused_recurrent_kda":
        pool = np.zeros((B * S, N, D, D), np.float32)
        pool[[0, S]] = state
        _, out = redelta.fused_recurrent_kda(mixed, pool, beta[..., None], g, None, A_log, dt_bias)
        end = pool[S - 1::S]
    else:
        records = dict(replay_u=NUMPY.make(np.zeros((B, S, N, D)), "float16"),
                       replay_k=NUMPY.make(np.zeros((B, S, N, D)), "float16"),
                       replay_decay=np.zeros((B, S, N, D), np.float32))
        out = redelta.fused_recurrent_kda_replayssm(mixed, state, beta[..., None], g, None, A_log, dt_bias,
                                                    **records)
        mine = plan.records(B, S)
        got = plan.verify(q, k, v, g, beta, state=state, records=mine, A_log=A_log, dt_bias=dt_bias)
        assert raw(got) == raw(out)
        assert [raw(x) for x in (mine.u, mine.k, mine.decay)] == [raw(x) for x in records.values()]
        return
    got = plan.prefill(q, k, v, g, beta, A_log=A_log, dt_bias=dt_bias, initial=state, final=final)
    assert raw(got) == raw(out) and raw(final) == raw(end)
