"""redelta.fla: the signatures of flash-linear-attention 0.6, and what they compute, against float64."""
from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="not run: torch is not installed")

import redelta  # noqa: E402
from redelta import _torch_plans, fla  # noqa: E402

pytestmark = pytest.mark.quick

SIGNATURES = {  # flash-linear-attention 0.6.0, without **kwargs
    "chunk_gated_delta_rule": "q k v g beta scale=None initial_state=None output_final_state=False "
    "use_qk_l2norm_in_kernel=False use_beta_sigmoid_in_kernel=False allow_neg_eigval=False state_v_first=False "
    "cu_seqlens=None cu_seqlens_cpu=None chunk_indices=None cp_context=None",
    "fused_recurrent_gated_delta_rule": "q k v g=None gk=None gv=None beta=None scale=None initial_state=None "
    "output_final_state=False use_qk_l2norm_in_kernel=False use_gate_in_kernel=False A_log=None dt_bias=None "
    "use_beta_sigmoid_in_kernel=False allow_neg_eigval=False state_v_first=False cu_seqlens=None",
    "chunk_kda": "q k v g beta scale=None initial_state=None output_final_state=False "
    "use_qk_l2norm_in_kernel=False use_gate_in_kernel=False use_beta_sigmoid_in_kernel=False "
    "allow_neg_eigval=False safe_gate=False lower_bound=None disable_recompute=False "
    "return_intermediate_states=False state_v_first=False cu_seqlens=None cu_seqlens_cpu=None cp_context=None "
    "use_graph=False max_num_seqs=None",
    "fused_recurrent_kda": "q k v g beta A_log=None dt_bias=None scale=None initial_state=None "
    "output_final_state=False use_qk_l2norm_in_kernel=False use_gate_in_kernel=False "
    "use_beta_sigmoid_in_kernel=False allow_neg_eigval=False lower_bound=None state_v_first=False cu_seqlens=None",
}
B, T, H, HV, K, V = 2, 21, 2, 4, 24, 40
KDA = [name for name in SIGNATURES if "kda" in name]
GDN = [name for name in SIGNATURES if "kda" not in name]


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name: str) -> None:
    parameters = list(inspect.signature(getattr(fla, name)).parameters.values())
    listed = " ".join(p.name if p.default is p.empty else f"{p.name}={p.default}" for p in parameters
                      if p.kind is p.POSITIONAL_OR_KEYWORD)
    assert listed == SIGNATURES[name]
    assert parameters[-1].kind is inspect.Parameter.VAR_KEYWORD


def case(name: str, rng: Any, dtype: Any = torch.float32, batch: int = B, tokens: int = T) -> dict[str, Any]:
    def tensor(*shape: int) -> Any:
        return torch.from_numpy(rng.standard_normal(shape)).to(dtype)

    channels = (K,) if name in KDA else ()
    return {"q": tensor(batch, tokens, H, K), "k": tensor(batch, tokens, H, K), "v": tensor(batch, tokens, HV, V),
            "g": -tensor(batch, tokens, HV, *channels).abs(), "beta": torch.sigmoid(tensor(batch, tokens, HV).float()).to(dtype),
            "use_qk_l2norm_in_kernel": True}


def oracle(q: Any, k: Any, v: Any, g: Any, beta: Any, scale: float, state: np.ndarray) -> tuple:
    """float64; one sequence [T,H,.], state [HV,K,V]; g [T,HV] or [T,HV,K] or None."""
    out = np.zeros(v.shape)
    for t in range(len(q)):
        for h in range(v.shape[1]):
            key, query, S = k[t, h // (HV // H)], q[t, h // (HV // H)], state[h]
            if g is not None:
                S = np.exp(g[t, h])[..., None] * S
            S = S + np.outer(key, beta[t, h] * (v[t, h] - S.T @ key))
            out[t, h], state[h] = scale * S.T @ query, S
    return out, state


def expected(arguments: dict[str, Any], g: Any = "given", beta: Any = None, scale: float = K ** -0.5,
             initial: Any = None) -> tuple:
    x = {n: arguments[n].double().numpy() for n in ("q", "k", "v", "g", "beta") if arguments.get(n) is not None}
    if arguments.get("use_qk_l2norm_in_kernel"):
        for n in "qk":
            x[n] = x[n] / np.sqrt((x[n] ** 2).sum(-1, keepdims=True) + 1e-6)
    g = x.get("g") if isinstance(g, str) else g
    beta = x["beta"] if beta is None else beta
    outs, states = [], []
    for b in range(len(x["q"])):
        S = np.zeros((HV, K, V)) if initial is None else initial[b].double().numpy().copy()
        out, S = oracle(x["q"][b], x["k"][b], x["v"][b], None if g is None else g[b], beta[b], scale, S)
        outs.append(out)
        states.append(S)
    return np.stack(outs), np.stack(states)


def close(result: tuple, wanted: tuple, limit: float) -> None:
    for x, y in zip(result, wanted):
        assert x.shape == y.shape
        error = np.linalg.norm(x.double().numpy() - y) / np.linalg.norm(y)
        assert error < limit, error


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("name", SIGNATURES)
def test_against_float64(name: str, dtype: Any, rng: Any) -> None:
    x = case(name, rng, dtype)
    initial = torch.from_numpy(rng.standard_normal((B, HV, K, V))).float()
    result = getattr(fla, name)(**x, initial_state=initial, output_final_state=True)
    assert result[0].dtype is dtype and result[1].dtype is torch.float32
    close(result, expected(x, initial=initial), 2e-6 if dtype in (torch.float32, torch.float64) else 1e-2)
    assert getattr(fla, name)(**x)[1] is None
    first = getattr(fla, name)(**x, initial_state=initial.transpose(-1, -2), output_final_state=True,
                               state_v_first=True)
    assert torch.equal(first[0], result[0]) and torch.equal(first[1].transpose(-1, -2), result[1])


def logits(x: dict[str, Any], times: int) -> np.ndarray:
    return times / (1 + np.exp(-x["beta"].double().numpy()))


@pytest.mark.parametrize("name", SIGNATURES)
def test_gates_and_beta_in_the_kernel(name: str, rng: Any) -> None:
    x = case(name, rng)
    run, channels = getattr(fla, name), (K,) if name in KDA else ()
    x["g"] = -x["g"]
    A = torch.from_numpy(rng.standard_normal((1, 1, HV, 1))).float()
    bias = torch.from_numpy(rng.standard_normal((HV, *channels))).float()
    rate = A.double().numpy().reshape(HV, *(1 for _ in channels))
    raw = x["g"].double().numpy()
    on = dict(use_gate_in_kernel=True, use_beta_sigmoid_in_kernel=True, output_final_state=True)
    soft = -np.exp(rate) * np.log1p(np.exp(raw + bias.double().numpy()))
    close(run(**x, **on, A_log=A, dt_bias=bias.flatten(), allow_neg_eigval=True), expected(x, soft, logits(x, 2)), 2e-6)
    close(run(**x, **on, A_log=A.to(torch.float64), scale=0.5),
          expected(x, -np.exp(rate) * np.log1p(np.exp(raw)), logits(x, 1), 0.5), 2e-6)
    if name in GDN:
        return
    for bound in (-3.0, -9.0):  # the second is beyond what C takes
        wanted = bound / (1 + np.exp(-np.exp(rate) * (raw + bias.double().numpy())))
        close(run(**x, **on, A_log=A, dt_bias=bias, lower_bound=bound), expected(x, wanted, logits(x, 1)), 2e-6)
        close(run(**x, **on, lower_bound=bound), expected(x, bound / (1 + np.exp(-raw)), logits(x, 1)), 2e-6)


def test_gates_per_channel_and_none(rng: Any) -> None:
    run, x = fla.fused_recurrent_gated_delta_rule, case("fused_recurrent_gated_delta_rule", rng)
    gk = -torch.rand(B, T, HV, K)
    both = x["g"].double().numpy()[..., None] + gk.double().numpy()
    close(run(**x, gk=gk, output_final_state=True), expected(x, both), 2e-6)
    g = x.pop("g")
    close(run(**x, gk=gk, output_final_state=True), expected(x, gk.double().numpy()), 2e-6)
    close(run(**x, output_final_state=True), expected(x, None), 2e-6)
    x["g"] = g
    del x["beta"]
    close(run(**x, output_final_state=True), expected(x, beta=np.ones((B, T, HV))), 2e-6)


@pytest.mark.parametrize("name", SIGNATURES)
def test_splits_packs_and_strides_keep_every_bit(name: str, rng: Any) -> None:
    x, run = case(name, rng), getattr(fla, name)
    out, final = run(**x, output_final_state=True)
    tensors = [n for n in x if isinstance(x[n], torch.Tensor)]
    state, parts = None, []
    for part in (slice(0, 17), *(slice(t, t + 1) for t in range(17, T))):
        o, state = getattr(fla, name.replace("chunk", "fused_recurrent"))(
            **{n: y[:, part] if n in tensors else y for n, y in x.items()}, initial_state=state,
            output_final_state=True)
        parts.append(o)
    assert torch.equal(torch.cat(parts, 1), out) and torch.equal(state, final)
    flat = {n: y.reshape(1, B * T, *y.shape[2:]) if n in tensors else y for n, y in x.items()}
    for ends in (torch.tensor([0, T, 2 * T]), torch.tensor([0, T, 2 * T], dtype=torch.int32)):
        packed = run(**flat, cu_seqlens=ends, output_final_state=True)
        assert torch.equal(packed[0].view_as(out), out) and torch.equal(packed[1], final)
    inner = {n: y.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2) if n in tensors and y.dim() == 4 else y
             for n, y in x.items()}
    assert inner["q"].stride(-1) == T
    assert torch.equal(run(**inner)[0], out)


def test_outputs_are_new_and_inputs_stay(rng: Any) -> None:
    x = case("chunk_kda", rng)
    initial = torch.ones(B, HV, K, V)
    copies = {n: y.clone() for n, y in x.items() if isinstance(y, torch.Tensor)}
    results = [fla.chunk_kda(**x, initial_state=initial, output_final_state=True) for _ in range(3)]
    assert len({y.data_ptr() for pair in results for y in pair} | {initial.data_ptr()}) == 7
    assert all(torch.equal(x[n], y) for n, y in copies.items()) and bool((initial == 1).all())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_states_of_any_float_type(dtype: Any, rng: Any) -> None:
    x, initial = case("chunk_kda", rng), torch.randn(B, HV, K, V).to(dtype)
    out, final = fla.chunk_kda(**x, initial_state=initial, output_final_state=True)
    same, state = fla.chunk_kda(**x, initial_state=initial.float(), output_final_state=True)
    assert torch.equal(out, same) and torch.equal(final, state)


@pytest.mark.parametrize("name", SIGNATURES)
def test_no_tokens(name: str, rng: Any) -> None:
    x, initial = case(name, rng, tokens=0), torch.randn(B, HV, K, V)
    out, final = getattr(fla, name)(**x, initial_state=initial, output_final_state=True)
    assert out.shape == (B, 0, HV, V) and torch.equal(final, initial)
    assert not getattr(fla, name)(**x, output_final_state=True)[1].any()


@pytest.mark.parametrize("name", SIGNATURES)
def test_derivatives_come_from_torch_and_say_so_once(name: str, rng: Any) -> None:
    x, run = case(name, rng, torch.float64, batch=1, tokens=3), getattr(fla, name)
    out, final = run(**x, output_final_state=True)
    x["v"].requires_grad_()
    fla._warned.clear()
    with pytest.warns(RuntimeWarning, match="requires grad") as heard:
        with_grad = run(**x, output_final_state=True)
        run(**x)
    assert len(heard) == 1 and heard[0].filename == __file__
    assert with_grad[0].requires_grad and with_grad[0].dtype is torch.float64
    close((with_grad[0].detach(), with_grad[1].detach()), (out.double().numpy(), final.double().numpy()), 1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for quiet in (torch.no_grad, torch.inference_mode):
            with quiet():
                assert torch.equal(run(**x)[0], out)
    small = {n: y[..., :1, :2].detach().clone().requires_grad_() if n in "qkv" else y for n, y in x.items()}
    small["g"] = x["g"][:, :, :1, :2].clone() if name in KDA else x["g"][:, :, :1].clone()
    small["beta"] = x["beta"][:, :, :1].clone()
    for n in ("g", "beta"):
        small[n].requires_grad_()
    names = ["q", "k", "v", "g", "beta"]
    ends = torch.tensor([0, 1, 3])
    assert torch.autograd.gradcheck(
        lambda *a: run(**{**small, **dict(zip(names, a))}, cu_seqlens=ends)[0], [small[n] for n in names])


def test_fallback_computes_the_same(rng: Any) -> None:
    on = dict(use_gate_in_kernel=True, use_beta_sigmoid_in_kernel=True, allow_neg_eigval=True,
              output_final_state=True, state_v_first=True)
    for name in SIGNATURES:
        x, run = case(name, rng), getattr(fla, name)
        x |= dict(A_log=torch.randn(HV), dt_bias=torch.randn(HV, *((K,) if name in KDA else ())),
                  initial_state=torch.randn(B, HV, V, K), scale=0.3)
        for more in ({}, {"lower_bound": -2.0}) if name in KDA else ({},):
            plain = run(**x, **on, **more)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                slow = run(**{**x, "q": x["q"].clone().requires_grad_()}, **on, **more)
            close([y.detach() for y in slow], [y.numpy() for y in plain], 3e-6)


REFUSED: list = [
    (GDN[1:], {"gv": torch.zeros(1)}, NotImplementedError, "gv"),
    (["chunk_gated_delta_rule", "chunk_kda"], {"cp_context": object()}, NotImplementedError, "cp_context"),
    (["chunk_kda"], {"return_intermediate_states": True}, NotImplementedError, "return_intermediate_states"),
    (SIGNATURES, {"beta": torch.zeros(B, T, HV, V)}, NotImplementedError, "beta"),
    (SIGNATURES, {"allow_neg_eigval": True}, ValueError, "use_beta_sigmoid_in_kernel"),
    (SIGNATURES, {"cu_seqlens": torch.tensor([0, T])}, ValueError, "batch size must be 1"),
    (SIGNATURES, {"use_gate_in_kernel": True}, ValueError, "A_log"),
    (["chunk_kda"], {"use_gate_in_kernel": True, "safe_gate": True, "lower_bound": -6.0}, ValueError, "lower_bound"),
    (SIGNATURES, {"initial_state": torch.zeros(B + 1, HV, K, V)}, ValueError, "initial_state"),
    (SIGNATURES, {"k": torch.zeros(B, T, H + 1, K)}, ValueError, "k must"),
    (SIGNATURES, {"v": torch.zeros(B, T, HV - 1, V)}, ValueError, "v must"),
    (SIGNATURES, {"g": torch.zeros(B, T, HV + 1)}, ValueError, "g must"),
    (SIGNATURES, {"scale": float("nan")}, ValueError, "scale"),
    (SIGNATURES, {"state_v_first": True, "transpose_state_layout": True}, ValueError, "transpose_state_layout"),
]


@pytest.mark.parametrize("names,wrong,error,words", REFUSED, ids=[row[3] for row in REFUSED])
def test_refusals(names: Any, wrong: dict, error: type, words: str, rng: Any) -> None:
    for name in names:
        with pytest.raises(error, match=words):
            getattr(fla, name)(**{**case(name, rng), **wrong})


@pytest.mark.parametrize("name", SIGNATURES)
def test_unknown_keywords_are_ignored_and_the_old_name_of_the_layout_works(name: str, rng: Any) -> None:
    x, run = case(name, rng), getattr(fla, name)
    out = run(**x, state_v_first=True, output_final_state=True)
    with pytest.warns(DeprecationWarning):
        same = run(**x, transpose_state_layout=True, output_final_state=True, cu_seq_lens_q=3, chunk_size=64)
    assert torch.equal(out[0], same[0]) and torch.equal(out[1], same[1])


def test_the_cache_of_plans_is_bounded(rng: Any) -> None:
    x = case("chunk_kda", rng)
    for i in range(100):
        fla.chunk_kda(**x, scale=1.0 + i)
    about = _torch_plans.plan_of.cache_info()
    assert about.currsize <= about.maxsize == 64
    before = about.misses
    out = fla.chunk_kda(**x, scale=100.0)[0]
    assert _torch_plans.plan_of.cache_info().misses == before
    redelta.set_isa("scalar")
    assert torch.equal(fla.chunk_kda(**x, scale=100.0)[0], out)
