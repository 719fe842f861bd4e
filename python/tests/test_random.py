"""Random shapes, layouts, lengths and slots against the oracle."""
from __future__ import annotations

import numpy as np
import pytest

import cases
import oracle
import redelta
from conftest import SEED, Kind, raw, values

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, given, seed, settings, strategies as st  # noqa: E402

QUIET = dict(deadline=None, suppress_health_check=list(HealthCheck), database=None, print_blob=True)
KINDS = [Kind("torch")] if pytest.importorskip("torch") else []
try:
    import ml_dtypes  # noqa: F401
    KINDS.append(Kind("numpy"))
except ImportError:
    pass


@seed(SEED)
@settings(max_examples=300, **QUIET)
@given(st.data())
def test_chunk_gated_delta_rule(data) -> None:
    draw = data.draw
    B, Hk, group = draw(st.integers(0, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    T = draw(st.integers(0, 40))
    K, V = draw(st.integers(1, 140)), draw(st.integers(1, 140))
    dtype = draw(st.sampled_from(["float32", "float16", "bfloat16"]))
    lengths = [draw(st.integers(0, T)) for _ in range(B)]
    rng = np.random.default_rng(draw(st.integers(0, 2 ** 32)))
    kind = draw(st.sampled_from(KINDS))
    case = cases.chunk(kind, rng, B=B, Hk=Hk, Hv=Hk * group, T=T, K=K, V=V, dtype=dtype, lengths=lengths,
                       gate=draw(st.booleans()))
    out, final = redelta.chunk_gated_delta_rule(**case)
    n = cases.numbers(case)
    expected, state = oracle.chunk_gated_delta_rule(
        n["query"], n["key"], n["value"], n["beta"], n["state"], lengths, n["g"], n["scale_value"])
    bound = {"float32": 2e-6, "float16": 6e-4, "bfloat16": 5e-3}[dtype]
    for b in range(B):
        assert oracle.relative(values(out)[b], expected[b]) <= bound
        assert oracle.relative(values(final)[b], state[b]) <= 2e-6


@seed(SEED)
@settings(max_examples=200, **QUIET)
@given(st.data())
def test_verify_then_commit(data) -> None:
    draw = data.draw
    layout = draw(st.sampled_from(["BSND", "BNSD", "TND"]))
    B = draw(st.integers(1, 3))
    lengths = [draw(st.integers(1, 6)) for _ in range(B)] if layout == "TND" else [draw(st.integers(1, 6))] * B
    rng = np.random.default_rng(draw(st.integers(0, 2 ** 32)))
    kind = draw(st.sampled_from(KINDS))
    capacity = max(lengths) + draw(st.integers(0, 3))
    case = cases.verify(kind, rng, layout=layout, lengths=lengths, N=draw(st.integers(1, 5)),
                        capacity=capacity, spread=draw(st.sampled_from([0.2, 1.0])))
    n = cases.numbers(case)
    out = redelta.fused_recurrent_kda_replayssm(**case, block_num=draw(st.sampled_from([None, 8, 24])))
    expected, records = oracle.verify(n["mixedqkv"], n["recurrent_state"], n["beta"], n["g"], None, n["A_log"],
                                      n["dt_bias"], -5.0, layout, capacity, n["cu_seqlens"])
    assert np.all(np.abs(values(out) - expected) <= 0.005 + 0.005 * np.abs(expected))
    accepted = [draw(st.integers(0, length)) for length in lengths]
    redelta.commit_recurrent_kda_replayssm(case["recurrent_state"], case["replay_u"], case["replay_k"],
                                           case["replay_decay"], kind.make(accepted, "int32"))
    state = oracle.commit(n["recurrent_state"], *(np.nan_to_num(r) for r in records), accepted)
    for b in range(B):
        assert oracle.relative(values(case["recurrent_state"])[b], state[b]) <= 1e-3  # float16 records


@seed(SEED)
@settings(max_examples=200, **QUIET)
@given(st.data())
def test_prefill_split_anywhere(data) -> None:
    draw = data.draw
    T = draw(st.integers(1, 24))
    cut = draw(st.integers(0, T))
    rng = np.random.default_rng(draw(st.integers(0, 2 ** 32)))
    case = cases.chunk(Kind("numpy"), rng, B=2, T=T, K=draw(st.integers(1, 70)), V=draw(st.integers(1, 70)))
    whole, final = redelta.chunk_gated_delta_rule(**case)
    pieces, state = [], case["state"]
    for a, b in ((0, cut), (cut, T)):
        piece = {name: x[:, :, a:b] if name in ("query", "key", "value", "beta", "g") else x
                 for name, x in case.items()}
        out, state = redelta.chunk_gated_delta_rule(**{
            **piece, "state": state, "actual_seq_lengths": np.full(2, b - a, np.int32)})
        pieces.append(out)
    assert raw(np.concatenate(pieces, 2)) == raw(whole) and raw(state) == raw(final)
