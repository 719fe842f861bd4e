"""The named operators against the NumPy float64 oracle: layouts, element types, lengths, libraries."""
from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import cases
import oracle
import redelta
from conftest import raw, values

EXACT = {"float32": 2e-6, "float16": 6e-4, "bfloat16": 5e-3}


def close(actual: Any, expected: np.ndarray, atol: float = 0.005, rtol: float = 0.005) -> None:
    """The named operators' own test: |x - r| <= 0.005 + 0.005 |r|."""
    actual = values(actual)
    assert actual.shape == expected.shape
    assert np.all(np.isfinite(actual))
    assert np.all(np.abs(actual - expected) <= atol + rtol * np.abs(expected)), \
        np.abs(actual - expected).max()


def near(actual: Any, expected: np.ndarray, dtype: str = "float32") -> None:
    """Relative L2 error of each sequence within the element type's bound."""
    actual = values(actual)
    assert actual.shape == expected.shape
    for a, e in zip(actual, expected):
        assert oracle.relative(a, e) <= EXACT[dtype], oracle.relative(a, e)


# ------------------------------------------------------------------------------- signatures -------


@pytest.mark.quick
@pytest.mark.parametrize("function, text", [
    (redelta.chunk_gated_delta_rule,
     "query, key, value, beta, state, actual_seq_lengths, g=None, scale_value=1.0"),
    (redelta.fused_recurrent_kda_replayssm,
     "mixedqkv, recurrent_state, beta, g, scale, A_log, dt_bias, lower_bound=-5.0, layout_qkv='BSND', *, "
     "replay_u, replay_k, replay_decay, cu_seqlens=None, block_num=None"),
    (redelta.commit_recurrent_kda_replayssm,
     "recurrent_state, replay_u, replay_k, replay_decay, num_accepted_tokens, block_num=None"),
    (redelta.flash_kda_metadata, "q, v, initial_state, layout_qkv, cu_seqlens=None"),
    (redelta.flash_kda,
     "q, k, v, g, beta, scale, initial_state, A_log, dt_bias, lower_bound=-5.0, layout_qkv='BNSD', "
     "metadata=None"),
    (redelta.fused_recurrent_kda,
     "mixedqkv, state, beta, g, scale, A_log, dt_bias, lower_bound=-5.0, layout_qkv='BSND', *, "
     "cu_seqlens=None, ssm_state_indices=None, num_accepted_tokens=None"),
])
def test_signatures_are_the_fields(function: Any, text: str) -> None:
    signature = inspect.signature(function)
    bare = signature.replace(return_annotation=inspect.Signature.empty, parameters=[
        p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()])
    assert str(bare) == f"({text})"
    assert signature.return_annotation is not inspect.Signature.empty
    assert function.__doc__


# ------------------------------------------------------------------------------- GDN prefill ------


@pytest.mark.quick
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_chunk_gated_delta_rule(kind: Any, rng: Any, dtype: str) -> None:
    case = cases.chunk(kind, rng, B=3, T=37, dtype=dtype, lengths=[37, 0, 20])
    before = {name: raw(x) for name, x in case.items() if hasattr(x, "shape") or hasattr(x, "inner")}
    out, final = redelta.chunk_gated_delta_rule(**case)
    assert kind.is_mine(out) and kind.is_mine(final)
    n = cases.numbers(case)
    expected, state = oracle.chunk_gated_delta_rule(
        n["query"], n["key"], n["value"], n["beta"], n["state"], n["actual_seq_lengths"], n["g"],
        n["scale_value"])
    near(out, expected, dtype)
    near(final, state)
    assert not values(out)[1].any() and not values(out)[2, :, 20:].any()  # rows without a token
    assert np.array_equal(values(final)[1], values(case["state"])[1])     # length 0: as it was
    for name, content in before.items():
        assert raw(case[name]) == content, f"{name} was written"


@pytest.mark.parametrize("state_dtype", ["float32", "bfloat16"])
def test_chunk_gated_delta_rule_state_types(kind: Any, rng: Any, state_dtype: str) -> None:
    case = cases.chunk(kind, rng, dtype="bfloat16", state_dtype=state_dtype)
    out, final = redelta.chunk_gated_delta_rule(**case)
    n = cases.numbers(case)
    expected, state = oracle.chunk_gated_delta_rule(
        n["query"], n["key"], n["value"], n["beta"], n["state"], n["actual_seq_lengths"], n["g"],
        n["scale_value"])
    near(out, expected, "bfloat16")
    near(final, state, state_dtype)


@pytest.mark.parametrize("Hk, Hv, K, V, T, gate", [(1, 1, 16, 16, 1, True), (1, 3, 24, 40, 9, False),
                                                   (3, 3, 1, 5, 4, True), (2, 6, 128, 64, 66, True),
                                                   (1, 2, 200, 7, 17, True), (1, 1, 512, 512, 3, False)])
def test_chunk_gated_delta_rule_sizes(rng: Any, kind: Any, Hk: int, Hv: int, K: int, V: int, T: int,
                                      gate: bool) -> None:
    case = cases.chunk(kind, rng, B=2, Hk=Hk, Hv=Hv, K=K, V=V, T=T, gate=gate)
    out, final = redelta.chunk_gated_delta_rule(*case.values())
    n = cases.numbers(case)
    expected, state = oracle.chunk_gated_delta_rule(
        n["query"], n["key"], n["value"], n["beta"], n["state"], n["actual_seq_lengths"], n["g"],
        n["scale_value"])
    near(out, expected)
    near(final, state)


def test_chunk_gated_delta_rule_without_tokens(kind: Any, rng: Any) -> None:
    case = cases.chunk(kind, rng, T=0)
    out, final = redelta.chunk_gated_delta_rule(**case)
    assert values(out).shape == (2, 4, 0, 32)
    assert raw(final) == raw(case["state"])


def test_scale_defaults_to_one(kind: Any, rng: Any) -> None:
    case = cases.chunk(kind, rng)
    del case["scale_value"]
    out, _ = redelta.chunk_gated_delta_rule(**case)
    one, _ = redelta.chunk_gated_delta_rule(**case, scale_value=1.0)
    assert raw(out) == raw(one)


# ------------------------------------------------------------------------------- KDA verify -------


def _verify_expected(case: dict, capacity: int) -> Any:
    n = cases.numbers(case)
    return oracle.verify(n["mixedqkv"], n["recurrent_state"], n["beta"], n["g"], n["scale"], n["A_log"],
                         n["dt_bias"], case.get("lower_bound", -5.0), case["layout_qkv"], capacity,
                         n["cu_seqlens"])


@pytest.mark.parametrize("layout, lengths, N, block_num", [
    ("BSND", (8,), 1, 8), ("BNSD", (9, 9), 17, 24), ("TND", (5, 1, 3), 8, None), ("BSND", (1,), 96, 32),
    ("TND", (2,), 3, 28)])
def test_verify_and_commit(kind: Any, rng: Any, layout: str, lengths: tuple, N: int, block_num: Any) -> None:
    case = cases.verify(kind, rng, layout=layout, lengths=lengths, N=N)
    capacity = max(lengths) + 2
    before = {name: raw(case[name]) for name in ("mixedqkv", "recurrent_state", "beta", "g", "A_log",
                                                 "dt_bias")}
    out = redelta.fused_recurrent_kda_replayssm(**case, block_num=block_num)
    assert kind.is_mine(out)
    expected, records = _verify_expected(case, capacity)
    close(out, expected)
    for name, record in zip(("replay_u", "replay_k", "replay_decay"), records):
        written = ~np.isnan(record)
        actual = values(case[name])
        assert np.all(np.abs(actual - record)[written] <= 0.005 + 0.005 * np.abs(record[written])), name
        assert np.all(actual[~written] == -7), f"{name}: rows past a length were written"
    for name, content in before.items():
        assert raw(case[name]) == content, f"{name} was written"

    accepted = [int(rng.integers(0, n + 1)) for n in lengths]
    accepted[0] = 0 if len(lengths) > 1 else lengths[0]
    replays = [case[name] for name in ("replay_u", "replay_k", "replay_decay")]
    states = values(case["recurrent_state"])
    result = redelta.commit_recurrent_kda_replayssm(
        case["recurrent_state"], *replays, kind.make(accepted, "int32"), block_num)
    assert result is None
    expected_state = oracle.commit(states, *(values(x) for x in replays), accepted)
    close(case["recurrent_state"], expected_state)
    for b, count in enumerate(accepted):
        if count == 0:
            assert np.array_equal(values(case["recurrent_state"])[b], states[b])


@pytest.mark.quick
def test_block_num_never_changes_a_bit(kind: Any, rng: Any) -> None:
    case = cases.verify(kind, rng, N=5, lengths=(4, 4))
    results = set()
    for block_num in (8, 24, 28, 32, None):
        out = redelta.fused_recurrent_kda_replayssm(**case, block_num=block_num)
        results.add((raw(out), raw(case["replay_u"]), raw(case["replay_k"]), raw(case["replay_decay"])))
    assert len(results) == 1


def test_verify_scale_and_lower_bound(kind: Any, rng: Any) -> None:
    case = cases.verify(kind, rng)
    case.update(scale=0.5, lower_bound=-1.25)
    out = redelta.fused_recurrent_kda_replayssm(**case)
    close(out, _verify_expected(case, 5)[0])
    case.update(scale=None)
    default = raw(redelta.fused_recurrent_kda_replayssm(**case))
    case.update(scale=1 / 128 ** 0.5)
    assert raw(redelta.fused_recurrent_kda_replayssm(**case)) == default


# ------------------------------------------------------------------------------- KDA prefill ------


@pytest.mark.parametrize("layout, lengths, heads", [
    ("BNSD", None, (2, 4)), ("BSND", None, (1, 3)), ("BNSD", (7, 0, 3), (2, 2)), ("BSND", (7, 4), (1, 2)),
    ("TND", (5, 0, 3), (2, 4)), ("TND", (6,), (1, 1))])
def test_flash_kda(kind: Any, rng: Any, layout: str, lengths: Any, heads: tuple) -> None:
    case = cases.flash(kind, rng, layout=layout, lengths=lengths or (7, 7), Hk=heads[0], Hv=heads[1])
    cu = None if lengths is None else np.cumsum([0, *lengths])
    state_before = raw(case["initial_state"])
    metadata = None
    if lengths is not None:
        metadata = redelta.flash_kda_metadata(case["q"], case["v"], case["initial_state"], layout,
                                              kind.make(cu, "int64" if layout == "BSND" else "int32"))
        assert kind.is_mine(metadata) and values(metadata).ndim == 1
    out, final = redelta.flash_kda(**case, metadata=metadata)
    assert kind.is_mine(out) and kind.is_mine(final)
    n = cases.numbers(case)
    expected, state = oracle.flash_kda(n["q"], n["k"], n["v"], n["g"], n["beta"], None, n["initial_state"],
                                       n["A_log"], n["dt_bias"], -5.0, layout, cu)
    close(out, expected)
    for s, e in zip(values(final), state):
        assert oracle.relative(s, e) <= EXACT["float32"]
    assert raw(case["initial_state"]) == state_before
    # The same schedule serves another layer.
    again = cases.flash(kind, rng, layout=layout, lengths=lengths or (7, 7), Hk=heads[0], Hv=heads[1])
    redelta.flash_kda(**again, metadata=metadata)


def test_flash_kda_positional_and_by_default_bnsd(kind: Any, rng: Any) -> None:
    case = cases.flash(kind, rng, layout="BNSD")
    order = "q k v g beta scale initial_state A_log dt_bias".split()
    by_name = redelta.flash_kda(**case)
    by_place = redelta.flash_kda(*(case[name] for name in order))
    assert [raw(x) for x in by_name] == [raw(x) for x in by_place]


# ------------------------------------------------------------------------------- KDA decode -------


@pytest.mark.parametrize("layout, lengths, slots, indices, accepted", [
    ("BSND", (3, 3), None, None, None), ("BNSD", (2, 2, 2), 9, [8, 1, 0, 5, 3, 7], [0, 2, 1]),
    ("TND", (1, 4, 2), 7, [6, 2, 0, 1, 5, 3, 4], [1, 4, 0]), ("TND", (2, 1), 3, None, [2, 1])])
@pytest.mark.parametrize("state_dtype", ["float32", "bfloat16"])
def test_fused_recurrent_kda(kind: Any, rng: Any, layout: str, lengths: tuple, slots: Any, indices: Any,
                             accepted: Any, state_dtype: str) -> None:
    case = cases.decode(kind, rng, layout=layout, lengths=lengths, slots=slots, indices=indices,
                        accepted=accepted, state_dtype=state_dtype)
    n = cases.numbers(case)
    state, out = redelta.fused_recurrent_kda(**case)
    assert state is case["state"] and kind.is_mine(out)
    pool, expected = oracle.fused_recurrent_kda(
        n["mixedqkv"], n["state"], n["beta"], n["g"], None, n["A_log"], n["dt_bias"], -5.0, layout,
        n["cu_seqlens"], n["ssm_state_indices"], n["num_accepted_tokens"])
    close(out, expected)
    for s, e in zip(values(state), pool):
        assert oracle.relative(s, e) <= EXACT[state_dtype]
    unused = set(range(len(pool))) - set(indices or range(sum(lengths)))
    for slot in unused:
        assert np.array_equal(values(state)[slot], n["state"][slot])


# ------------------------------------------------------------------------------- across kinds -----


def test_the_libraries_agree_bit_for_bit(rng: Any) -> None:
    pytest.importorskip("ml_dtypes")
    pytest.importorskip("torch")
    from conftest import Kind
    seen = set()
    for name in ("numpy", "torch", "dlpack"):
        case = cases.verify(Kind(name), np.random.default_rng(5))
        seen.add((raw(redelta.fused_recurrent_kda_replayssm(**case)), raw(case["replay_u"])))
    assert len(seen) == 1


def test_kinds_may_be_mixed(rng: Any) -> None:
    torch = pytest.importorskip("torch")
    from conftest import Kind
    case = cases.chunk(Kind("numpy"), rng)
    case["state"] = torch.from_numpy(case["state"])
    out, final = redelta.chunk_gated_delta_rule(**case)
    assert isinstance(out, np.ndarray) and isinstance(final, torch.Tensor)
