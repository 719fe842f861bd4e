"""Every refused argument: the right exception, the parameter's name in the message, nothing written."""
from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import cases
import redelta
from conftest import Kind, raw, values

NUMPY = Kind("numpy")
needs_torch = pytest.mark.skipif("torch" not in sys.modules, reason="torch is not installed")


def refuse(function: Any, case: dict, error: type, status: str | None, match: str = "", **changes: Any) -> None:
    """The call fails as told, and every array keeps its bytes."""
    arguments = {**case, **changes}
    before = {name: raw(x) for name, x in arguments.items() if isinstance(x, np.ndarray)}
    with pytest.raises(error, match=match or None) as caught:
        function(**arguments)
    assert isinstance(caught.value, redelta.Error)
    if status is not None:
        assert caught.value.status_name == status, str(caught.value)
    for name, content in before.items():
        assert raw(arguments[name]) == content, f"{name} was written"


@pytest.mark.quick
def test_chunk_gated_delta_rule(rng: Any) -> None:
    case = cases.chunk(NUMPY, rng)
    f = redelta.chunk_gated_delta_rule
    for name in ("query", "key", "value", "beta", "state", "actual_seq_lengths"):
        refuse(f, case, TypeError, "RD_E_NULL", name, **{name: None})
        refuse(f, case, TypeError, None, name, **{name: "text"})
        refuse(f, case, TypeError, None, name, **{name: [1.0]})
        refuse(f, case, TypeError, "RD_E_DTYPE", name, **{name: case[name].astype(np.int64)})
        refuse(f, case, ValueError, None, name, **{name: case[name][0]})
    refuse(f, case, TypeError, None, "float64", query=case["query"].astype(np.float64))
    refuse(f, case, TypeError, None, "bfloat16", query=case["query"].astype(np.uint16))
    refuse(f, case, ValueError, "RD_E_RANK", "dimensions", query=case["query"][None])
    refuse(f, case, TypeError, "RD_E_DTYPE", "key", key=case["key"].astype(np.float16))
    refuse(f, case, ValueError, "RD_E_SHAPE", "key", key=case["key"][:, :, :4])
    refuse(f, case, ValueError, "RD_E_HEADS", "", value=case["value"][:, :3], beta=case["beta"][:, :3],
           state=case["state"][:, :3], g=case["g"][:, :3])
    refuse(f, case, ValueError, "RD_E_SCALE", "scale_value", scale_value=float("inf"))
    refuse(f, case, TypeError, None, "scale_value", scale_value="much")
    refuse(f, case, ValueError, "RD_E_LENGTH", "actual_seq_lengths",
           actual_seq_lengths=np.array([5, 6], np.int32))
    refuse(f, case, ValueError, "RD_E_LENGTH", "actual_seq_lengths",
           actual_seq_lengths=np.array([-1, 5], np.int32))
    padded = np.zeros(case["query"].shape, [("x", np.float32), ("pad", np.uint16)])["x"]
    refuse(f, case, ValueError, "RD_E_STRIDE", "no multiples", query=padded)
    refuse(f, case, TypeError, None, "masked", g=np.ma.masked_array(case["g"]))


@pytest.mark.quick
def test_numbers_that_are_none(rng: Any) -> None:
    case = cases.chunk(NUMPY, rng)
    f = redelta.chunk_gated_delta_rule
    for value in ("0.5", b"1", 1j, [1.0]):
        refuse(f, case, TypeError, None, "scale_value: must be a number", scale_value=value)
    refuse(f, case, ValueError, None, "scale_value: must be a number", scale_value=10**400)
    sizes = {"Hk": 1, "Hv": 1, "K": 4, "V": 3, "max_batch": 2, "max_tokens": 8}

    def plan(**changes: Any) -> None:
        redelta.Plan(redelta.Problem(**{**sizes, **changes}))

    for field in ("scale", "l2_eps", "lower_bound"):
        refuse(plan, {}, TypeError, None, field, **{field: "1"})
        refuse(plan, {}, ValueError, None, field, **{field: 10**400})
    refuse(plan, {}, TypeError, None, "l2_eps", l2_eps=None)
    for field, value in (("K", 2**64 + 4), ("max_batch", 2**63), ("pad_slot", 2**32 - 1)):
        refuse(plan, {}, ValueError, "RD_E_OVERFLOW", field, **{field: value})


@pytest.mark.quick
def test_pools_and_records(rng: Any) -> None:
    pool = redelta.StatePool(3, 1, 2, 4)
    content = pool.numpy()
    content[:] = rng.standard_normal(content.shape)
    before, saved = content.copy(), pool.save(1)
    calls = {"reset": (pool.reset, {"slot": 0}), "copy": (pool.copy, {"source": 0, "to": 1}),
             "save": (pool.save, {"slot": 0}), "load": (pool.load, {"slot": 0, "data": saved})}
    for function, arguments in calls.values():
        for name in arguments.keys() - {"data"}:
            for value in (2**64, -2**64, 2**64 + 1, 2**63):  # what C would see is a slot that exists
                refuse(function, arguments, ValueError, "RD_E_OVERFLOW", name, **{name: value})
            for value in (3, -1):
                refuse(function, arguments, ValueError, "RD_E_SLOT_RANGE", "", **{name: value})
            for value in (0.0, "0", None):
                refuse(function, arguments, TypeError, None, name, **{name: value})
    refuse(pool.convert_to, {}, TypeError, None, "other", other="pool")
    assert np.array_equal(content, before)
    sizes = {"slots": 3, "Hv": 1, "V": 2, "K": 4}
    for name in sizes:
        refuse(redelta.StatePool, sizes, ValueError, "RD_E_OVERFLOW", name, **{name: 2**64 + 1})
        refuse(redelta.StatePool, sizes, TypeError, None, name, **{name: 1.5})

    plan = redelta.Plan(redelta.Problem(Hk=1, Hv=1, K=4, V=3, max_batch=2, max_tokens=8, layout="packed"))
    for name in ("batch", "capacity"):
        refuse(plan.records, {"batch": 1, "capacity": 1}, ValueError, None, name, **{name: -1})
        refuse(plan.records, {"batch": 1, "capacity": 1}, TypeError, None, name, **{name: 1.5})
    one = {"u": np.zeros((1, 2, 1, 3), np.float32), "k": np.zeros((1, 2, 1, 4), np.float32), "decay": None}
    for name in ("u", "k"):
        refuse(plan.records_from, one, TypeError, None, f"records.{name}", **{name: None})
        refuse(plan.records_from, one, TypeError, None, f"records.{name}", **{name: [1]})
    tokens = {"q": (2, 1, 4), "k": (2, 1, 4), "v": (2, 1, 3), "g": (2, 1, 4), "beta": (2, 1)}
    case = {name: np.zeros(shape, np.float32) for name, shape in tokens.items()}
    case["cu_seqlens"] = np.array([0, 2], np.int32)
    plan.prefill(**case)
    refuse(plan.prefill, case, TypeError, None, "cu_seqlens", cu_seqlens=[0, 2])
    refuse(plan.prefill, case, ValueError, None, "cu_seqlens", cu_seqlens=np.array(2, np.int32))


@pytest.mark.quick
def test_replayssm(rng: Any) -> None:
    pytest.importorskip("ml_dtypes")
    case = cases.verify(NUMPY, rng)
    f = redelta.fused_recurrent_kda_replayssm
    for name in ("mixedqkv", "recurrent_state", "beta", "g", "A_log", "dt_bias", "replay_u", "replay_k",
                 "replay_decay"):
        refuse(f, case, TypeError, "RD_E_NULL", name, **{name: None})
        refuse(f, case, TypeError, "RD_E_DTYPE", name, **{name: values(case[name]).astype(np.int32)})
        refuse(f, case, ValueError, None, name, **{name: np.ascontiguousarray(case[name][..., :-1])})
        refuse(f, case, ValueError, "RD_E_STRIDE", name, **{name: np.repeat(case[name], 2, -1)[..., ::2]})
    refuse(f, case, ValueError, "RD_E_LOWER_BOUND", "lower_bound", lower_bound=0.5)
    refuse(f, case, ValueError, "RD_E_LOWER_BOUND", "lower_bound", lower_bound=-5.5)
    refuse(f, case, ValueError, "RD_E_SCALE", "scale", scale=float("nan"))
    for block_num in (0, 7, -1, 64):
        refuse(f, case, ValueError, "RD_E_BLOCK_NUM", "block_num", block_num=block_num)
    for block_num in ("8", 8.0, True):
        refuse(f, case, TypeError, None, "block_num", block_num=block_num)
    for layout, error in (("SBND", ValueError), ("bsnd", ValueError), (None, TypeError), (1, TypeError)):
        refuse(f, case, error, None, "layout_qkv", layout_qkv=layout)
    refuse(f, case, ValueError, "RD_E_CAPACITY", "",
           **{n: np.ascontiguousarray(case[n][:, :2]) for n in ("replay_u", "replay_k", "replay_decay")})
    refuse(f, case, ValueError, "RD_E_PRESENCE", "cu_seqlens", cu_seqlens=np.array([0, 3, 6], np.int32))
    tnd = cases.verify(NUMPY, rng, layout="TND", lengths=(2, 4))
    for cu, status in (([1, 2, 6], "RD_E_CU_START"), ([0, 6, 6], "RD_E_CU_ORDER"), ([0, 2, 5], "RD_E_CU_END"),
                       ([0, 4, 2], "RD_E_CU_ORDER")):
        refuse(f, tnd, ValueError, status, "cu_seqlens", cu_seqlens=np.array(cu, np.int32))
    refuse(f, tnd, TypeError, None, "cu_seqlens", cu_seqlens=None)

    commit = {"recurrent_state": case["recurrent_state"], "num_accepted_tokens": np.array([1, 2], np.int32),
              **{n: case[n] for n in ("replay_u", "replay_k", "replay_decay")}}
    g = redelta.commit_recurrent_kda_replayssm
    for accepted in ([-1, 0], [0, 6]):
        refuse(g, commit, ValueError, "RD_E_ACCEPTED", "num_accepted_tokens",
               num_accepted_tokens=np.array(accepted, np.int32))
    refuse(g, commit, TypeError, "RD_E_DTYPE", "num_accepted_tokens",
           num_accepted_tokens=np.array([1, 1], np.int64))
    refuse(g, commit, ValueError, "RD_E_BLOCK_NUM", "block_num", block_num=0)


def test_decode_and_prefill(rng: Any) -> None:
    pytest.importorskip("ml_dtypes")
    case = cases.decode(NUMPY, rng, lengths=(2, 2), slots=6)
    f = redelta.fused_recurrent_kda
    for indices, status in (([0, 1, 2, 6], "RD_E_SLOT_RANGE"), ([0, -1, 2, 3], "RD_E_SLOT_RANGE"),
                            ([0, 1, 1, 3], "RD_E_SLOT_DUPLICATE")):
        refuse(f, case, ValueError, status, "ssm_state_indices", ssm_state_indices=np.array(indices, np.int32))
    refuse(f, case, ValueError, "RD_E_ACCEPTED", "num_accepted_tokens",
           num_accepted_tokens=np.array([3, 0], np.int32))
    refuse(f, case, ValueError, None, "state", state=np.ascontiguousarray(case["state"][:3]))

    flash = cases.flash(NUMPY, rng, layout="BSND", lengths=(4, 4))
    h = redelta.flash_kda
    metadata = redelta.flash_kda_metadata(flash["q"], flash["v"], flash["initial_state"], "BSND")
    damaged = metadata.copy()
    damaged[0] ^= 1
    refuse(h, flash, ValueError, "RD_E_METADATA", "metadata", metadata=damaged)
    refuse(h, flash, ValueError, "RD_E_METADATA", "metadata", metadata=np.zeros(3, np.int32))
    other = cases.flash(NUMPY, rng, layout="BSND", lengths=(5, 5))
    refuse(h, other, ValueError, "RD_E_METADATA", "metadata", metadata=metadata)
    with pytest.raises(ValueError, match="length|cu_seqlens") as caught:
        redelta.flash_kda_metadata(flash["q"], flash["v"], flash["initial_state"], "BSND",
                                   np.array([0, 5, 6], np.int32))
    assert caught.value.status_name == "RD_E_LENGTH"


# ------------------------------------------------------------------------------- FLA --------------


@pytest.mark.quick
def test_calls_for_the_other_library_are_told_so(rng: Any) -> None:
    B, T, H, D = 1, 6, 2, 16
    q, k, v = (rng.standard_normal((B, T, H, D)).astype(np.float32) for _ in range(3))
    g, beta = (rng.random((B, T, H)).astype(np.float32) for _ in range(2))
    f = redelta.chunk_gated_delta_rule
    with pytest.raises(TypeError, match="flash-linear-attention"):
        f(q, k, v, g, beta)
    with pytest.raises(TypeError, match="flash-linear-attention"):
        f(q, k, v, g, beta, 0.25)
    with pytest.raises(TypeError, match="flash-linear-attention"):
        f(q, k, v, g, beta, None)
    with pytest.raises(TypeError, match="flash-linear-attention"):
        f(q=q, k=k, v=v, g=g, beta=beta, scale=0.25, initial_state=None, output_final_state=True)
    with pytest.raises(TypeError, match="flash-linear-attention"):
        f(q, k, v, g=g, beta=beta, use_qk_l2norm_in_kernel=True)
    # Our names with that library's axes.
    with pytest.raises(ValueError, match=r"\[B,T,H,D\]"):
        f(query=q, key=k, value=v, beta=beta, state=np.zeros((B, H, D, D), np.float32),
          actual_seq_lengths=np.array([T], np.int32), g=g)
    # An ordinary mistake is not blamed on it.
    with pytest.raises(TypeError) as caught:
        f(q, k, v, unknown=1)
    assert "flash-linear-attention" not in str(caught.value)
    case = cases.chunk(NUMPY, rng)
    with pytest.raises(ValueError) as caught:
        f(**{**case, "actual_seq_lengths": np.array([9, 9], np.int32)})
    assert "flash-linear-attention" not in str(caught.value)


@pytest.mark.quick
def test_kda_calls_for_the_other_library_are_told_so(rng: Any) -> None:
    B, T, H, D = 1, 6, 2, 128
    q, k, v, g = (rng.standard_normal((B, T, H, D)).astype(np.float32) for _ in range(4))
    beta, A_log = rng.random((B, T, H)).astype(np.float32), np.zeros(H, np.float32)
    dt_bias, state = np.zeros((H, D), np.float32), np.zeros((B, H, D, D), np.float32)
    f = redelta.fused_recurrent_kda
    for args, named in (((q, k, v, g, beta), {}), ((q, k, v, g, beta, A_log, dt_bias), {}),
                        ((q, k, v, g, beta, A_log, dt_bias, 0.1, state), {}), ((q, k, v), {"g": g, "beta": beta}),
                        ((), {"q": q, "k": k, "v": v, "g": g, "beta": beta}),
                        ((q, k, v, g, beta), {"initial_state": state, "output_final_state": True}),
                        ((q, k, v, g, beta, A_log, dt_bias), {"use_gate_in_kernel": True, "scale": 0.1})):
        with pytest.raises(TypeError, match="flash-linear-attention.*mixedqkv") as caught:
            f(*args, **named)
        assert isinstance(caught.value, redelta.Error) and len(str(caught.value)) < 700
    pytest.importorskip("ml_dtypes")
    case = cases.decode(NUMPY, rng)  # an ordinary mistake is not blamed on it
    for changes, error in (({"scale": "x"}, TypeError), ({"beta": case["beta"][..., None]}, ValueError),
                           ({"state": case["state"][:1]}, ValueError), ({"unknown": 1}, TypeError)):
        for positional in (False, True):
            given = {**case, **changes}
            args = [given.pop(n) for n in ("mixedqkv", "state", "beta", "g", "scale")] if positional else []
            with pytest.raises(error) as caught:
                f(*args, **given)
            assert "flash-linear-attention" not in str(caught.value)


# ------------------------------------------------------------------------------- torch ------------


@needs_torch
def test_tensors_that_require_grad(rng: Any) -> None:
    import torch
    case = cases.verify(Kind("torch"), rng)
    expected = raw(redelta.fused_recurrent_kda_replayssm(**case))
    case["A_log"] = torch.nn.Parameter(case["A_log"])
    before = raw(case["replay_u"])
    with pytest.raises(ValueError, match="A_log: .*requires grad"):
        redelta.fused_recurrent_kda_replayssm(**case)
    assert raw(case["replay_u"]) == before
    with torch.no_grad():
        assert raw(redelta.fused_recurrent_kda_replayssm(**case)) == expected
    with torch.inference_mode():
        assert raw(redelta.fused_recurrent_kda_replayssm(**case)) == expected
    case["A_log"] = case["A_log"].detach()
    assert raw(redelta.fused_recurrent_kda_replayssm(**case)) == expected


@needs_torch
def test_tensors_that_are_not_in_memory(rng: Any) -> None:
    import torch
    case = cases.chunk(Kind("torch"), rng)
    with pytest.raises(ValueError, match="g: .*device meta"):
        redelta.chunk_gated_delta_rule(**{**case, "g": case["g"].to("meta")})
    with pytest.raises(TypeError, match="g: .*layout"):
        redelta.chunk_gated_delta_rule(**{**case, "g": case["g"].to_sparse()})
    with pytest.raises(TypeError, match="float64"):
        redelta.chunk_gated_delta_rule(**{**case, "g": case["g"].double()})


@needs_torch
def test_tensors_that_are_not_what_they_seem(rng: Any) -> None:
    import torch
    case = cases.chunk(Kind("torch"), rng)
    with pytest.raises(TypeError, match="query: .*resolve_neg"):
        redelta.chunk_gated_delta_rule(**{**case, "query": torch._neg_view(case["query"])})
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(case["g"])
    with pytest.raises(TypeError, match="g: .*FakeTensor.*redelta.torch"):
        redelta.chunk_gated_delta_rule(**{**case, "g": fake})


def test_bfloat16_needs_a_type_that_says_so(rng: Any) -> None:
    pytest.importorskip("ml_dtypes")
    case = cases.verify(NUMPY, rng)
    with pytest.raises(TypeError, match="ml_dtypes.bfloat16"):
        redelta.fused_recurrent_kda_replayssm(**{**case, "g": case["g"].view(np.uint16)})


# ------------------------------------------------------------------------------- messages ---------

NOT_INTEGERS = [True, np.bool_(True), 1.9, 1.0, np.float32(2), "2", b"2", None, [1], np.array([1]), 1j]


@pytest.mark.quick
def test_integers_are_integers() -> None:
    """One conversion for every integer argument of the package."""
    sizes = {"Hk": 1, "Hv": 1, "K": 4, "V": 3, "max_batch": 2, "max_tokens": 8}
    p = redelta.Problem(**sizes)
    plan, pool, loop = redelta.Plan(p), redelta.StatePool(2, 1, 2, 4), redelta.StepLoop(p, 2, 2)
    slot, zeros = loop.join(), {n: np.zeros((1, 2, 1, w), np.float32) for n, w in
                                (("q", 4), ("k", 4), ("v", 3), ("g", 4))}
    zeros["beta"] = np.zeros((1, 2, 1), np.float32)
    loop.verify([slot], **zeros)
    torch = sys.modules.get("torch")
    tensors = [] if torch is None else [torch.tensor(1.5), torch.tensor(True), torch.tensor([1])]
    calls = {
        **{f"Problem.{name}": lambda x, name=name: redelta.Plan(redelta.Problem(**{**sizes, name: x}))
           for name in (*sizes, "beta_times", "pad_slot")},
        **{f"StatePool.{name}": lambda x, name=name: redelta.StatePool(
            **{"slots": 1, "Hv": 1, "V": 2, "K": 3, name: x}) for name in ("slots", "Hv", "V", "K")},
        "reset": pool.reset, "copy": lambda x: pool.copy(x, 0), "copy to": lambda x: pool.copy(0, x),
        "save": pool.save, "load": lambda x: pool.load(x, pool.save(0)),
        "batch": lambda x: plan.records(x, 1), "capacity": lambda x: plan.records(1, x),
        "loop slots": lambda x: redelta.StepLoop(p, x, 1), "loop capacity": lambda x: redelta.StepLoop(p, 1, x),
        "leave": loop.leave, "fork": loop.fork, "accept": lambda x: loop.accept([x]),
        **{verb: lambda x, verb=verb: getattr(loop, verb)([x], **zeros)
           for verb in ("prefill", "decode", "verify")},
    }
    for name, call in calls.items():
        for value in NOT_INTEGERS + tensors:
            with pytest.raises(TypeError, match="must be an integer") as caught:
                call(value)
            assert isinstance(caught.value, redelta.Error), name
        indices = name in ("reset", "copy", "copy to", "save", "load", "leave", "fork", "accept", "prefill",
                           "decode", "verify")
        for value in (2**64, -2**63 - 1, 10**5000, *((2**32, 2**32 + 2) if indices else ())):
            with pytest.raises(ValueError) as caught:
                call(value)
            assert isinstance(caught.value, redelta.Error), name
    for threads in (True, 1.5, "2", np.array([1])):
        with pytest.raises(TypeError, match="threads: must be an integer"):
            redelta.set_num_threads(threads)
    for counts in (1, "1", None):
        with pytest.raises(TypeError, match="counts"):
            loop.accept(counts)
    loop.accept(np.array([1]) if torch is None else torch.tensor([1]))  # what is one, is taken


@pytest.mark.quick
def test_messages_hold_no_contents(rng: Any) -> None:
    """A value in a message is a number, a short text, or a kind: never the elements of an array."""
    case = cases.chunk(NUMPY, rng)
    p = redelta.Problem(Hk=1, Hv=1, K=4, V=3, max_batch=2, max_tokens=8)
    secret = np.full((40, 40), 7.125, np.float32)
    things = [secret, secret.tolist(), {"a": secret}, [secret], "7.125" * 1000, b"7.125" * 1000]
    if "torch" in sys.modules:
        import torch
        things += [torch.from_numpy(secret), [torch.from_numpy(secret)]]
    pool, loop = redelta.StatePool(1, 1, 2, 3), redelta.StepLoop(p, 1, 1)
    calls = [lambda x: redelta.chunk_gated_delta_rule(**{**case, "scale_value": x}), pool.reset,
             lambda x: redelta.set_num_threads(x), lambda x: redelta.set_isa(x), lambda x: redelta.Plan(x),
             lambda x: redelta.Plan(redelta.Problem(1, 1, 4, 3, 2, 8, gate=x)),
             lambda x: redelta.Plan(redelta.Problem(1, 1, x, 3, 2, 8)), loop.leave,
             lambda x: loop.prefill(x, *5 * [None]), lambda x: pool.load(0, x), lambda x: pool.convert_to(x)]
    for call in calls:
        for thing in things:
            with pytest.raises((TypeError, ValueError)) as caught:
                call(thing)
            assert isinstance(caught.value, redelta.Error) and len(str(caught.value)) < 300
            assert str(caught.value).count("7.125") < 20 and "7.125, " not in str(caught.value)
