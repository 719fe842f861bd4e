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
