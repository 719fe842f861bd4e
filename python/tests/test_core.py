"""Problems, plans, verbs, records, pools and the step loop, as bits against bits."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oracle
import redelta
from conftest import Kind, raw, values

GATES = {"none": {}, "log": {}, "decay": {}, "softplus": {}, "lower_bound": {}}
NUMPY = Kind("numpy")


def problem(**changes: Any) -> redelta.Problem:
    choices: dict[str, Any] = dict(Hk=2, Hv=4, K=24, V=40, max_batch=4, max_tokens=16, gate="softplus",
                                   beta="logit", qk_norm="l2")
    choices.update(changes)
    return redelta.Problem(**choices)


def inputs(rng: Any, p: redelta.Problem, B: int, T: int, kind: Kind = NUMPY) -> dict[str, Any]:
    """Activations [B,T,...] by name (packed: [B*T,...])."""
    lead = (B * T,) if p.layout == "packed" else (B, T)
    axis = (p.K,) if p.gate_axis == "per_channel" else ()
    n = rng.standard_normal
    g = n((*lead, p.Hv, *axis))
    g = {"log": -np.abs(g), "decay": np.exp(-np.abs(g))}.get(p.gate, g)
    beta = n((*lead, p.Hv))
    raw_gate = p.gate in ("softplus", "lower_bound")
    return {"q": kind.make(n((*lead, p.Hk, p.K)), p.qkv_dtype), "k": kind.make(n((*lead, p.Hk, p.K)), p.qkv_dtype),
            "v": kind.make(n((*lead, p.Hv, p.V)), p.qkv_dtype),
            "g": None if p.gate == "none" else kind.make(g, p.gate_dtype),
            "beta": kind.make(beta if p.beta == "logit" else oracle.sigmoid(beta), p.beta_dtype),
            "A_log": kind.make(n(p.Hv), "float32") if raw_gate else None,
            "dt_bias": kind.make(n((p.Hv, *axis)), "float32") if raw_gate else None}


def part(x: dict[str, Any], a: int, b: int, rows: Any = slice(None)) -> dict[str, Any]:
    """Tokens a..b of padded NumPy activations (of some sequences)."""
    return {name: np.ascontiguousarray(array[rows][:, a:b]) if name in ("q", "k", "v", "g", "beta")
            and array is not None else array for name, array in x.items()}


def expected(p: redelta.Problem, x: dict[str, Any], initial: np.ndarray | None = None) -> Any:
    """Outputs and final states of padded activations in float64."""
    n = {name: None if a is None else values(a) for name, a in x.items()}
    B, T = n["v"].shape[:2]
    heads = np.arange(p.Hv)
    order = heads // (p.Hv // p.Hk) if p.head_map == "grouped" else heads % p.Hk
    if p.gate == "none":
        a = np.ones((B, T, p.Hv, 1))
    else:
        a = n["g"] if p.gate_axis == "per_channel" else n["g"][..., None]
        bias = None if n["dt_bias"] is None else n["dt_bias"].reshape(p.Hv, -1)
        rate = None if n["A_log"] is None else np.exp(n["A_log"])[:, None]
        a = {"log": lambda: np.exp(a), "decay": lambda: a,
             "softplus": lambda: np.exp(-rate * np.logaddexp(0, a + bias)),
             "lower_bound": lambda: np.exp(p.lower_bound * oracle.sigmoid(rate * (a + bias)))}[p.gate]()
    norm = (lambda r: oracle.l2(r, p.l2_eps)) if p.qk_norm == "l2" else (lambda r: r)
    beta = p.beta_times * (oracle.sigmoid(n["beta"]) if p.beta == "logit" else n["beta"])
    scale = p.K ** -0.5 if p.scale is None else p.scale
    out, final = np.zeros(n["v"].shape), np.zeros((B, p.Hv, p.V, p.K))
    for b in range(B):
        start = np.zeros((p.Hv, p.V, p.K)) if initial is None else initial[b]
        out[b], final[b] = oracle.recurrence(norm(n["q"][b])[:, order], norm(n["k"][b])[:, order], n["v"][b],
                                             a[b], beta[b], start, scale)
    return out, final


CHOICES = [dict(), dict(gate="none"), dict(gate="log", gate_axis="per_head", beta="value"),
           dict(gate="decay", head_map="tiled", qk_norm="as_is", scale=0.1, K=8),
           dict(gate="lower_bound", lower_bound=-2.5, state_layout="KV", beta_times=2),
           dict(gate="softplus", gate_axis="per_head", Hk=1, K=130, V=3), dict(numerics="fast", max_tokens=40),
           dict(qkv_dtype="float16", gate_dtype="float16", beta_dtype="float16")]


@pytest.mark.quick
@pytest.mark.quick
def test_prefill_with_snapshots(rng: Any) -> None:
    p = problem()
    plan, x = redelta.Plan(p), inputs(rng, p, 2, 4)
    final, snapshots, plain = (redelta.StatePool.for_problem(p, n) for n in (2, 9, 2))
    order = np.array([[8, 0, -1, 3], [1, 2, 4, -1]], np.int32)
    out = plan.prefill(**x, final=final, snapshots=snapshots, snapshot_slots=order)
    seen = snapshots.numpy()
    for t in range(4):
        step = plan.decode(**part(x, t, t + 1), state=plain)
        assert step.tobytes() == np.ascontiguousarray(out[:, t:t + 1]).tobytes()
        for b in range(2):
            if order[b, t] >= 0:
                assert seen[order[b, t]].tobytes() == plain.numpy()[b].tobytes(), (b, t)
    assert final.numpy().tobytes() == plain.numpy().tobytes() and not seen[[5, 6, 7]].any()
    with pytest.raises(ValueError, match="snapshot"):
        plan.prefill(**x, snapshots=snapshots, snapshot_slots=np.array([[0, 1, 2, 3], [4, 5, 6, 9]], np.int32))


@pytest.mark.parametrize("choices", CHOICES, ids=lambda c: ",".join(f"{k}={v}" for k, v in c.items()) or "kda")
def test_verbs_agree_with_the_oracle_and_with_each_other(rng: Any, choices: dict) -> None:
    p = problem(**choices)
    plan = redelta.Plan(p)
    B, T = 3, 11
    x = inputs(rng, p, B, T)
    start = 0.3 * rng.standard_normal((B, p.Hv, p.V, p.K)).astype(np.float32)

    def pool() -> redelta.StatePool:
        made = redelta.StatePool.for_problem(p, B)
        made.numpy()[...] = start if p.state_layout == "VK" else start.swapaxes(-1, -2)
        return made

    def vk(made: redelta.StatePool) -> np.ndarray:
        return made.numpy() if p.state_layout == "VK" else made.numpy().swapaxes(-1, -2)

    final = redelta.StatePool.for_problem(p, B)
    out = plan.prefill(**x, initial=pool(), final=final)
    o, s = expected(p, x, start.astype(np.float64))
    for b in range(B):
        assert oracle.relative(values(out)[b], o[b]) <= 2e-6
        assert oracle.relative(vk(final)[b].astype(np.float64), s[b]) <= 2e-6
    if p.numerics == "fast":
        return

    decoded = pool()
    steps = [plan.decode(**part(x, t, t + 1), state=decoded) for t in range(T)]
    assert np.concatenate(steps, 1).tobytes() == out.tobytes()
    assert decoded.numpy().tobytes() == final.numpy().tobytes()

    for m in (0, 1, 4, T):
        checkpoint, records = pool(), plan.records(B, T + 2)
        verified = plan.verify(**x, state=checkpoint, records=records)
        assert verified.tobytes() == out.tobytes()
        assert checkpoint.numpy().tobytes() == pool().numpy().tobytes()
        assert list(records.lengths) == [T] * B and not records.consumed
        elsewhere = redelta.StatePool.for_problem(p, B)
        accepted = np.full(B, m, np.int32)
        plan.materialize(records, accepted, source=checkpoint, to=elsewhere)
        assert checkpoint.numpy().tobytes() == pool().numpy().tobytes() and not records.consumed
        plan.commit(records, accepted, state=checkpoint)
        assert records.consumed
        partly = pool()
        if m:
            plan.decode(**part(x, 0, m), state=partly)
        assert checkpoint.numpy().tobytes() == partly.numpy().tobytes() == elsewhere.numpy().tobytes()
        with pytest.raises(ValueError) as caught:
            plan.commit(records, accepted, state=checkpoint)
        assert caught.value.status_name == "RD_E_CONSUMED"


def test_records_are_as_small_as_they_say() -> None:
    p = problem(Hk=4, Hv=4, K=128, V=128)
    info, records = redelta.Plan(p).info(), redelta.Plan(p).records(1, 5)
    assert records.nbytes == 5 * info["record_bytes_per_token"]
    assert info["snapshot_bytes_per_token"] == 4 * 128 * 128 * 4
    assert info["snapshot_bytes_per_token"] / info["record_bytes_per_token"] > 42
    assert info["threads"] >= 1 and info["rows_kernel"] and info["scratch_bytes"] > 0


def test_commit_verify_has_the_bits_of_both(rng: Any, kind: Kind) -> None:
    p = problem()
    plan, B = redelta.Plan(p), 3
    first, second = inputs(rng, p, B, 5, kind), inputs(rng, p, B, 4, kind)
    accepted = kind.make([5, 0, 2], "int32")
    one, two = redelta.StatePool.for_problem(p, B), redelta.StatePool.for_problem(p, B)
    like = first["v"] if kind.name != "dlpack" else None
    old, new = plan.records(B, 8, like), plan.records(B, 8, like)
    plan.verify(**first, state=one, records=old)
    folded = plan.commit_verify(old, accepted, **second, state=one, records=new)
    old2, new2 = plan.records(B, 8, like), plan.records(B, 8, like)
    plan.verify(**first, state=two, records=old2)
    plan.commit(old2, accepted, state=two)
    plain = plan.verify(**second, state=two, records=new2)
    assert kind.is_mine(plain)
    assert raw(folded) == raw(plain) and one.numpy().tobytes() == two.numpy().tobytes()
    assert [raw(x) for x in (new.u, new.k, new.decay)] == [raw(x) for x in (new2.u, new2.k, new2.decay)]
    with pytest.raises(ValueError) as caught:
        plan.commit_verify(new, accepted, **second, state=one, records=new)
    assert caught.value.status_name in ("RD_E_ALIAS", "RD_E_ACCEPTED")


def test_slots_pads_and_snapshots(rng: Any) -> None:
    p = problem()
    plan = redelta.Plan(p)
    x = inputs(rng, p, 3, 2)
    pool = np.full((6, p.Hv, p.V, p.K), 0.25, np.float32)
    slots = np.array([4, -1, 1], np.int32)
    out = plan.decode(**x, state=pool, slots=slots)
    assert not out[1].any() and out[0].any()
    assert np.all(pool[[0, 2, 3, 5]] == 0.25) and not np.any(np.all(pool[[4, 1]] == 0.25, axis=(1, 2, 3)))

    base = np.full((3, p.Hv, p.V, p.K), 0.25, np.float32)
    snapshots = np.zeros((6, p.Hv, p.V, p.K), np.float32)
    order = np.array([[5, 4], [3, 2], [1, 0]], np.int32)
    again = plan.decode(**x, state=base, snapshots=snapshots, snapshot_slots=order)
    assert np.all(base == 0.25) and again[0].tobytes() == out[0].tobytes()
    assert snapshots[4].tobytes() == pool[4].tobytes() and snapshots[0].tobytes() == pool[1].tobytes()

    moved = np.full((6, p.Hv, p.V, p.K), 0.25, np.float32)
    plan.decode(**part(x, 0, 2, slice(0, 1)), state=moved, slots=slots[:1], write_slots=np.array([0], np.int32))
    assert moved[0].tobytes() == pool[4].tobytes() and np.all(moved[1:] == 0.25)


def test_packed_sequences(rng: Any, kind: Kind) -> None:
    padded, packed = problem(), problem(layout="packed")
    x = inputs(rng, padded, 1, 9)
    flat = {name: a[0] if name in ("q", "k", "v", "g", "beta") else a for name, a in x.items()}
    arrays = {name: kind.make(a, "float32") for name, a in flat.items()}
    cu = kind.make([0, 4, 4, 7], "int64")  # two tokens belong to nobody
    final = redelta.StatePool.for_problem(packed, 3)
    out = redelta.Plan(packed).prefill(**arrays, cu_seqlens=cu, final=final)
    assert kind.is_mine(out) and not values(out)[7:].any()
    for b, (first, last) in enumerate([(0, 4), (4, 4), (4, 7)]):
        one = redelta.StatePool.for_problem(padded, 1)
        alone = redelta.Plan(padded).prefill(**part(x, first, last), final=one)
        assert raw(alone) == raw(values(out)[None, first:last].astype(np.float32))
        assert one.numpy()[0].tobytes() == final.numpy()[b].tobytes()


def test_lengths_and_out(rng: Any) -> None:
    p = problem()
    plan, x = redelta.Plan(p), inputs(rng, p, 2, 5)
    out = np.full((2, 5, p.Hv, p.V), np.nan, np.float32)
    same = plan.prefill(**x, lengths=np.array([2, 5], np.int64), out=out)
    assert same is out and not out[0, 2:].any() and np.isfinite(out).all()
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out.*read-only"):
        plan.prefill(**x, out=out)


def test_problem_refuses_nonsense(rng: Any) -> None:
    for changes, error, match in [
            (dict(gate="tanh"), ValueError, "gate"), (dict(gate=3), TypeError, "gate"),
            (dict(K=0), ValueError, ""), (dict(K=513), ValueError, ""), (dict(Hv=3), ValueError, ""),
            (dict(scale=float("nan")), ValueError, "scale"), (dict(K=1.5), TypeError, "K"),
            (dict(lower_bound=1.0, gate="lower_bound"), ValueError, "lower_bound"),
            (dict(record_dtype="bfloat16"), TypeError, ""), (dict(beta_times=3), ValueError, ""),
            (dict(Hk=1 << 70), ValueError, "Hk"), (dict(pad_slot=1 << 40), ValueError, "pad_slot")]:
        with pytest.raises(error, match=match or None):
            redelta.Plan(problem(**changes))
    p = problem()
    plan = redelta.Plan(p)
    x = inputs(rng, p, 2, 3)
    pool = redelta.StatePool.for_problem(p, 2)
    with pytest.raises(ValueError, match="records"):
        plan.verify(**x, state=pool, records=plan.records(3, 8))
    with pytest.raises(TypeError, match="records"):
        plan.verify(**x, state=pool, records=None)
    with pytest.raises(TypeError, match="state"):
        plan.decode(**x, state=None)
    with pytest.raises(ValueError) as caught:
        plan.decode(**x, state=pool, slots=np.array([0, 2], np.int32))
    assert caught.value.status_name == "RD_E_SLOT_RANGE"
    records = plan.records(2, 8)
    plan.verify(**x, state=pool, records=records)
    with pytest.raises(ValueError) as caught:
        plan.commit(records, np.array([4, 0], np.int32), state=pool)
    assert caught.value.status_name == "RD_E_ACCEPTED" and not records.consumed
    foreign = redelta.Plan(problem(K=32))
    with pytest.raises(ValueError):
        foreign.commit(records, np.array([1, 0], np.int32), state=np.zeros((2, 4, 40, 32), np.float32))


# ------------------------------------------------------------------------------- pools ------------


def test_state_pool(rng: Any) -> None:
    pool = redelta.StatePool(4, 2, 5, 8)
    array = pool.numpy()
    assert len(pool) == 4 and array.shape == pool.shape == (4, 2, 5, 8) and not array.any()
    assert array.ctypes.data % 64 == 0 and array.strides[0] % 64 == 0
    array[...] = rng.standard_normal(array.shape)
    pool.copy(1, 3)
    assert array[3].tobytes() == array[1].tobytes()
    saved, copy = pool.save(1), array[1].copy()
    pool.reset(1)
    assert not array[1].any()
    pool.load(1, saved)
    assert array[1].tobytes() == copy.tobytes()
    pool.load(0, bytearray(saved))
    assert array[0].tobytes() == copy.tobytes()
    damaged = bytearray(saved)
    damaged[-1] ^= 1
    for bad in (bytes(damaged), saved[:-1], b""):
        with pytest.raises(ValueError) as caught:
            pool.load(2, bad)
        assert caught.value.status_name == "RD_E_BUFFER"
    with pytest.raises(TypeError):
        pool.load(2, "text")
    for call in (lambda: pool.reset(4), lambda: pool.copy(-1, 0), lambda: pool.save(9)):
        with pytest.raises(ValueError) as caught:
            call()
        assert caught.value.status_name == "RD_E_SLOT_RANGE"
    turned = redelta.StatePool(4, 2, 5, 8, layout="KV")
    pool.convert_to(turned)
    assert np.array_equal(turned.numpy(), array.swapaxes(-1, -2))
    half = redelta.StatePool(4, 2, 5, 8, dtype="float16")
    pool.convert_to(half)
    assert np.array_equal(half.numpy(), array.astype(np.float16))
    with pytest.raises(ValueError):
        pool.convert_to(redelta.StatePool(3, 2, 5, 8))
    with pytest.raises(ValueError):
        redelta.StatePool(1, 1, 1, 1, layout="XY")
    assert "shape=(4, 2, 5, 8)" in repr(pool)


def test_bfloat16_pools(rng: Any) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("ml_dtypes")
    pool = redelta.StatePool(2, 1, 4, 8, dtype="bfloat16")
    tensor = pool.torch()
    assert tensor.dtype == torch.bfloat16 and tuple(tensor.shape) == pool.shape
    tensor.fill_(1.5)
    assert np.all(pool.numpy().astype(np.float32) == 1.5)
