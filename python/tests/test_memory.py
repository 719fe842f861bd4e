"""Whose memory is read, written and kept: strides, in place, read-only, DLPack lifetimes."""
from __future__ import annotations

import ctypes
import gc
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import cases
import redelta
from conftest import Foreign, Kind, raw, values
from redelta import _array, _context, _dlpack

NUMPY, TORCH = Kind("numpy"), Kind("torch")
needs_torch = pytest.mark.skipif("torch" not in sys.modules, reason="torch is not installed")


def spread(array: np.ndarray, poison: float = np.nan) -> np.ndarray:
    """The same values as a view into a larger, poisoned array: every stride but the last is wider."""
    wide = np.full([n + 1 for n in array.shape[:-1]] + [array.shape[-1] + 3], poison, array.dtype)
    view = wide[tuple(slice(0, n) for n in array.shape)]
    view[...] = array
    return view


# ------------------------------------------------------------------------------- strides ----------


@pytest.mark.quick
def test_strided_views_give_the_bits_of_compact_arrays(rng: Any) -> None:
    case = cases.chunk(NUMPY, rng, T=9)
    compact = [raw(x) for x in redelta.chunk_gated_delta_rule(**case)]
    strided = {name: spread(x) if name in ("query", "key", "value", "beta", "state", "g") else x
               for name, x in case.items()}
    assert [raw(x) for x in redelta.chunk_gated_delta_rule(**strided)] == compact


def test_transposed_and_broadcast_views(rng: Any) -> None:
    case = cases.chunk(NUMPY, rng, B=1, Hv=2)
    expected = [raw(x) for x in redelta.chunk_gated_delta_rule(**case)]
    bthd = np.ascontiguousarray(case["query"].swapaxes(1, 2))  # as another library would hold it
    case["query"] = bthd.swapaxes(1, 2)
    assert [raw(x) for x in redelta.chunk_gated_delta_rule(**case)] == expected
    case["beta"] = np.broadcast_to(np.full((1, 1, 1), 0.5, np.float32), (1, 2, 5))[..., :5]
    with pytest.raises(ValueError, match="beta"):  # innermost stride 0
        redelta.chunk_gated_delta_rule(**case)
    case["value"] = np.broadcast_to(case["value"][:, :1], case["value"].shape)  # head stride 0
    case["beta"] = np.full((1, 2, 5), 0.5, np.float32)
    broadcast = [raw(x) for x in redelta.chunk_gated_delta_rule(**case)]
    case["value"] = np.ascontiguousarray(case["value"])
    assert [raw(x) for x in redelta.chunk_gated_delta_rule(**case)] == broadcast


@needs_torch
def test_torch_views(rng: Any) -> None:
    case = cases.chunk(TORCH, rng)
    expected = [raw(x) for x in redelta.chunk_gated_delta_rule(**case)]
    case["query"] = case["query"].transpose(1, 2).contiguous().transpose(1, 2)
    packed = __import__("torch").cat([case["value"], case["value"]], dim=-1)
    case["value"] = packed[..., :case["value"].shape[-1]]
    assert [raw(x) for x in redelta.chunk_gated_delta_rule(**case)] == expected


def test_negative_and_uneven_strides_are_refused(rng: Any) -> None:
    case = cases.chunk(NUMPY, rng)
    for name, view in (("query", case["query"][:, :, ::-1]), ("value", case["value"][..., ::2])):
        with pytest.raises(ValueError, match=name):
            redelta.chunk_gated_delta_rule(**{**case, name: view})
    record = np.zeros(case["g"].shape, np.dtype([("g", "<f4"), ("pad", "<u2")]))
    with pytest.raises(ValueError, match="g: .*(stride|aligned)"):
        redelta.chunk_gated_delta_rule(**{**case, "g": record["g"]})
    buffer = np.zeros(case["g"].nbytes + 1, np.uint8)
    with pytest.raises(ValueError, match="g: .*aligned"):
        odd = buffer[1:].view(np.float32).reshape(case["g"].shape)
        redelta.chunk_gated_delta_rule(**{**case, "g": odd})
    with pytest.raises(TypeError, match="g: .*byte order"):
        redelta.chunk_gated_delta_rule(**{**case, "g": case["g"].astype(">f4")})


# ------------------------------------------------------------------------------- in place ---------


@pytest.mark.quick
def test_in_place_arguments_are_written_where_they_are(kind: Any, rng: Any) -> None:
    case = cases.verify(kind, rng)
    addresses = {name: _array.viewer(type(case[name]), case[name])(case[name])[0]
                 for name in ("replay_u", "replay_k", "replay_decay", "recurrent_state")}
    redelta.fused_recurrent_kda_replayssm(**case)
    assert not np.any(values(case["replay_u"])[:, :3] == -7)
    before = raw(case["recurrent_state"])
    redelta.commit_recurrent_kda_replayssm(case["recurrent_state"], case["replay_u"], case["replay_k"],
                                           case["replay_decay"], kind.make([2, 3], "int32"))
    assert raw(case["recurrent_state"]) != before
    for name, address in addresses.items():
        assert _array.viewer(type(case[name]), case[name])(case[name])[0] == address


def test_read_only_arrays(rng: Any) -> None:
    pytest.importorskip("ml_dtypes")
    case = cases.verify(NUMPY, rng)
    for name in ("mixedqkv", "recurrent_state", "beta", "g", "A_log", "dt_bias"):
        case[name].flags.writeable = False  # inputs may be
    redelta.fused_recurrent_kda_replayssm(**case)
    for name in ("replay_u", "replay_k", "replay_decay"):
        frozen = {**case, name: case[name].copy()}
        frozen[name].flags.writeable = False
        content = [raw(frozen[n]) for n in ("replay_u", "replay_k", "replay_decay")]
        with pytest.raises(ValueError, match=f"{name}.*read-only"):
            redelta.fused_recurrent_kda_replayssm(**frozen)
        assert [raw(frozen[n]) for n in ("replay_u", "replay_k", "replay_decay")] == content
    records = [case[n] for n in ("replay_u", "replay_k", "replay_decay")]
    for record in records:
        record.flags.writeable = False  # a commit only reads them
    accepted = np.array([1, 1], np.int32)
    with pytest.raises(ValueError, match="recurrent_state.*read-only"):
        redelta.commit_recurrent_kda_replayssm(case["recurrent_state"], *records, accepted)
    redelta.commit_recurrent_kda_replayssm(case["recurrent_state"].copy(), *records, accepted)


def test_negative_strides_in_place_are_refused_unwritten(rng: Any) -> None:
    pytest.importorskip("ml_dtypes")
    case = cases.verify(NUMPY, rng)
    backwards = case["replay_u"][:, ::-1]
    with pytest.raises(ValueError, match="replay_u"):
        redelta.fused_recurrent_kda_replayssm(**{**case, "replay_u": backwards})
    assert np.all(values(case["replay_u"]) == -7) and np.all(values(case["replay_decay"]) == -7)


def test_overlapping_outputs_are_refused(rng: Any) -> None:
    pytest.importorskip("ml_dtypes")
    case = cases.verify(NUMPY, rng)
    with pytest.raises(ValueError) as caught:
        redelta.fused_recurrent_kda_replayssm(**{**case, "replay_k": case["replay_u"]})
    assert caught.value.status_name == "RD_E_ALIAS"


def test_arrays_of_one_element_may_have_any_stride(rng: Any) -> None:
    case = cases.chunk(NUMPY, rng, B=1, Hk=1, Hv=1, T=1)
    expected = raw(redelta.chunk_gated_delta_rule(**case)[0])
    odd = np.lib.stride_tricks.as_strided(case["value"], case["value"].shape, (12345, -4, 0, 4))
    assert raw(redelta.chunk_gated_delta_rule(**{**case, "value": odd})[0]) == expected


def test_nothing_is_copied_for_a_sparse_mapping(rng: Any, tmp_path: Any) -> None:
    """A pool far larger than what is touched: a copy of it would be noticed."""
    pytest.importorskip("ml_dtypes")
    slots = 1 << 15
    pool = np.memmap(tmp_path / "pool", np.float32, "w+", shape=(slots, 1, 128, 128))  # 2 GiB, sparse
    case = cases.decode(NUMPY, rng, lengths=(1,), N=1, slots=1, indices=[slots - 1])
    case["state"] = pool
    state, _ = redelta.fused_recurrent_kda(**case)
    assert state is pool and pool[slots - 1].any() and not pool[5].any()
    blocks = (tmp_path / "pool").stat().st_blocks * 512
    assert blocks < 64 << 20


# ------------------------------------------------------------------------------- DLPack -----------


class Counted:
    """An array of some other library that counts how often its memory is lent and given back."""

    def __init__(self, array: np.ndarray, versioned: bool = False, read_only: bool = False) -> None:
        self.array, self.asked = array, []

    def __dlpack__(self, *, max_version: Any = None) -> Any:
        self.asked.append(max_version)
        lent = _array.Lent(self, self.array.ctypes.data, _array.dtype_code("x", self.array.dtype),
                           self.array.shape, tuple(s // self.array.itemsize for s in self.array.strides))
        return lent.__dlpack__()

    def __dlpack_device__(self) -> tuple:
        return (1, 0)


def test_dlpack_inputs_are_given_back_after_every_call(rng: Any) -> None:
    case = cases.chunk(NUMPY, rng)
    names = ("query", "key", "value", "beta", "state", "actual_seq_lengths", "g")
    expected = [raw(x) for x in redelta.chunk_gated_delta_rule(**case)]
    lent = {name: Counted(case[name]) for name in names}
    base = _dlpack.loans()
    for _ in range(10):
        out, final = redelta.chunk_gated_delta_rule(**{**case, **lent})
        assert [raw(out), raw(final)] == expected
        del out, final
        gc.collect()
        assert _dlpack.loans() == base
    with pytest.raises(ValueError):
        redelta.chunk_gated_delta_rule(**{**case, **lent, "scale_value": float("nan")})
    gc.collect()
    assert _dlpack.loans() == base
    gone = [weakref.ref(x) for x in lent.values()]
    lent.clear()
    gc.collect()
    assert all(ref() is None for ref in gone)


@needs_torch
def test_dlpack_consumers_keep_our_memory_alive(rng: Any) -> None:
    import torch
    base = _dlpack.loans()
    pool = redelta.StatePool(3, 2, 8, 16)
    pool.numpy()[1] = 5
    tensor = torch.from_dlpack(pool)
    assert tensor.shape == (3, 2, 8, 16) and _dlpack.loans() == base + 1
    memory = weakref.ref(pool._memory)
    del pool
    gc.collect()
    assert memory() is not None and float(tensor[1].min()) == 5  # still ours, still there
    view = tensor[1]
    del tensor
    gc.collect()
    assert memory() is not None and float(view.min()) == 5
    del view
    gc.collect()
    assert memory() is None and _dlpack.loans() == base


def test_unconsumed_capsules_are_given_back() -> None:
    base = _dlpack.loans()
    pool = redelta.StatePool(1, 1, 4, 4)
    capsule = pool.__dlpack__()
    assert _dlpack.loans() == base + 1
    del capsule
    assert _dlpack.loans() == base


def test_a_pools_arrays_outlive_the_pool() -> None:
    pool = redelta.StatePool(2, 1, 4, 8)
    array = pool.numpy()
    memory = weakref.ref(pool._memory)
    del pool
    array[...] = 3
    gc.collect()
    assert memory() is not None and array.sum() == 2 * 4 * 8 * 3
    del array
    gc.collect()
    assert memory() is None


def test_dlpack_of_the_wrong_kind(rng: Any) -> None:
    case = cases.chunk(NUMPY, rng)

    class Elsewhere(Counted):
        def __dlpack_device__(self) -> tuple:
            return (2, 0)

    with pytest.raises(ValueError, match="g: .*CPU"):
        redelta.chunk_gated_delta_rule(**{**case, "g": Elsewhere(case["g"])})

    class Odd(Foreign):
        def __dlpack__(self, **options: Any) -> Any:
            return "not a capsule"

    with pytest.raises((TypeError, ValueError)):
        redelta.chunk_gated_delta_rule(**{**case, "g": Odd(case["g"])})


class Versioned:
    """A producer of DLPack 1: its capsule says whether the memory may be written."""

    def __init__(self, array: np.ndarray, read_only: bool, major: int = 1) -> None:
        self.array = array
        self.loan = _dlpack._Loan(array, array.ctypes.data, _array.dtype_code("x", array.dtype), array.shape,
                                  tuple(s // array.itemsize for s in array.strides))
        self.managed = _dlpack._Versioned(major=major, minor=0, flags=int(read_only),
                                          tensor=self.loan.managed.tensor)

    def __dlpack__(self, *, max_version: Any = None) -> Any:
        assert max_version == (1, 0)
        return _dlpack._capsule_new(ctypes.addressof(self.managed), b"dltensor_versioned", None)

    def __dlpack_device__(self) -> tuple:
        return (1, 0)


def test_dlpack_says_what_is_read_only(rng: Any) -> None:
    pytest.importorskip("ml_dtypes")
    case = cases.verify(NUMPY, rng)
    redelta.fused_recurrent_kda_replayssm(**case)
    arguments = [case[n] for n in ("recurrent_state", "replay_u", "replay_k", "replay_decay")]
    accepted = Versioned(np.array([1, 2], np.int32), read_only=True)
    expected = case["recurrent_state"].copy()
    redelta.commit_recurrent_kda_replayssm(expected, *arguments[1:], np.array([1, 2], np.int32))
    with pytest.raises(ValueError, match="recurrent_state.*read-only"):
        redelta.commit_recurrent_kda_replayssm(Versioned(arguments[0], True), *arguments[1:], accepted)
    with pytest.raises(TypeError, match="major version 2"):
        redelta.commit_recurrent_kda_replayssm(Versioned(arguments[0], False, 2), *arguments[1:], accepted)
    redelta.commit_recurrent_kda_replayssm(Versioned(arguments[0], False), *arguments[1:], accepted)
    assert raw(arguments[0]) == raw(expected)


@needs_torch
def test_outputs_go_through_the_producers_namespace(rng: Any) -> None:
    import torch
    case = cases.chunk(NUMPY, rng)
    expected = raw(redelta.chunk_gated_delta_rule(**case)[0])
    base = _dlpack.loans()

    class Namespaced(Counted):
        def __array_namespace__(self, **options: Any) -> Any:
            return torch  # has from_dlpack, which is all that is asked of it

    case["value"] = Namespaced(case["value"])
    out, final = redelta.chunk_gated_delta_rule(**case)
    assert isinstance(out, torch.Tensor) and raw(out) == expected and isinstance(final, np.ndarray)
    assert _dlpack.loans() == base + 1
    del out
    gc.collect()
    assert _dlpack.loans() == base


def test_long_runs_do_not_grow(rng: Any) -> None:
    """Resident memory after thousands of calls of every kind."""
    import resource
    case = cases.chunk(NUMPY, rng, T=2)
    lent = {**case, "g": Counted(case["g"])}

    def run(times: int) -> None:
        for _ in range(times):
            redelta.chunk_gated_delta_rule(**case)
            redelta.chunk_gated_delta_rule(**lent)
            with pytest.raises(ValueError):
                redelta.chunk_gated_delta_rule(**{**lent, "scale_value": float("inf")})
            redelta.StatePool(2, 1, 64, 64).numpy()

    run(300)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run(2000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4096  # KiB


def test_array_interface_alone_is_enough(rng: Any) -> None:
    case = cases.chunk(NUMPY, rng)
    expected = raw(redelta.chunk_gated_delta_rule(**case)[0])

    class Interface:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array
            self.__array_interface__ = array.__array_interface__

    case["g"] = Interface(case["g"])
    assert raw(redelta.chunk_gated_delta_rule(**case)[0]) == expected


# ------------------------------------------------------------------------------- warm calls -------


@pytest.mark.quick
def test_a_warm_call_builds_nothing(kind: Any, rng: Any) -> None:
    case = cases.decode(kind, rng, lengths=(1,))
    redelta.fused_recurrent_kda(**case)
    frames = dict(_context.current().frames)
    scratch = redelta.info()["scratch_bytes"]
    fresh = cases.decode(kind, rng, lengths=(1,))  # other memory, same shapes
    for _ in range(3):
        redelta.fused_recurrent_kda(**fresh)
    assert _context.current().frames == frames and redelta.info()["scratch_bytes"] == scratch


def test_many_shapes_do_not_grow_the_cache_without_bound(rng: Any) -> None:
    for T in range(1, 700):
        case = cases.chunk(NUMPY, rng, B=1, Hk=1, Hv=1, T=T, K=1, V=1)
        redelta.chunk_gated_delta_rule(**case)
        assert len(_context.current().frames) <= 512


# ------------------------------------------------------------------------------- autograd ---------


@needs_torch
@pytest.mark.quick
def test_autograd_learns_of_every_write_in_place(rng: Any) -> None:
    """What a verb writes advances its version counter; what it reads does not. So a backward pass through
    a saved tensor that was overwritten meanwhile is refused instead of wrong."""
    import torch
    p = redelta.Problem(Hk=1, Hv=2, K=8, V=4, max_batch=2, max_tokens=3)
    plan, like = redelta.Plan(p), torch.empty(0)
    x = {name: torch.randn(2, 3, *shape) for name, shape in
         (("q", (1, 8)), ("k", (1, 8)), ("v", (2, 4)), ("beta", (2,)))}
    x["g"] = -torch.rand(2, 3, 2, 8)
    state, snapshots, to = torch.zeros(2, *p.state_shape), torch.zeros(6, *p.state_shape), torch.zeros(2, *p.state_shape)
    first, second = plan.records(2, 3, like), plan.records(2, 3, like)
    out, slots, counts = torch.empty(2, 3, 2, 4), torch.arange(2, dtype=torch.int32), torch.ones(2, dtype=torch.int32)
    tensors = {**x, "state": state, "snapshots": snapshots, "to": to, "out": out, "slots": slots, "counts": counts,
               **{f"{which}.{name}": getattr(records, name) for which, records in
                  (("first", first), ("second", second)) for name in ("u", "k", "decay")}}

    def writes(names: str, call: Any) -> None:
        before = {name: tensor._version for name, tensor in tensors.items()}
        call()
        moved = {name for name, tensor in tensors.items() if tensor._version > before[name]}
        assert moved == set(names.split())

    one, two = "first.u first.k first.decay", "second.u second.k second.decay"
    writes("out state", lambda: plan.prefill(**x, final=state, out=out))
    writes("snapshots", lambda: plan.prefill(**x, initial=state, snapshots=snapshots))
    writes("out state", lambda: plan.decode(**x, state=state, slots=slots, out=out))
    writes("snapshots", lambda: plan.decode(**x, state=state, snapshots=snapshots))
    writes(one, lambda: plan.verify(**x, state=state, records=first))
    writes(f"state out {two}", lambda: plan.commit_verify(first, counts, **x, state=state, records=second, out=out))
    writes("to", lambda: plan.materialize(second, counts, source=state, to=to))
    writes("state", lambda: plan.commit(second, counts, state=state))
    with torch.no_grad():
        writes(one, lambda: plan.verify(**x, state=state, records=first))
    with pytest.raises(ValueError):
        writes("", lambda: plan.verify(**{**x, "q": x["q"][:, :2]}, state=state, records=first))
    writes("", lambda: None)

    for records, call in ((first, lambda: plan.verify(**x, state=state, records=first)),
                          (second, lambda: plan.commit_verify(first, counts, **x, state=state, records=second))):
        weight = torch.ones((), requires_grad=True)
        saved = (weight * records.u).sum()
        call()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            saved.backward()
    with torch.inference_mode():  # tensors without counters
        plan.verify(**x, state=torch.zeros(2, *p.state_shape), records=plan.records(2, 3, like))
