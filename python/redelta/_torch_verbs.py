"""The verbs of :class:`redelta.Plan` as ``torch.library`` custom operators; see :mod:`redelta.torch`.

An operator's arguments are tensors, numbers and text, so a problem's choices go in as a text
(:func:`describe`), its sizes and element types are those of the tensors, and the plan is looked up in a
cache inside. Records are their bare tensors: the struct that C wants is made anew in every call, so there
is no check that records are committed only once.
"""
from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from . import _context, _errors, core
from ._torch_plans import WORDS, describe, plan_of

__all__ = ["describe", "prefill", "decode", "verify", "commit"]

_MADE_BY_VERIFY = 0x52444C31  # rd_records.made.magic


def _plan(choices: str, scale: Optional[float], lower_bound: float, k: Tensor, v: Tensor, g: Optional[Tensor],
          beta: Tensor, state: Optional[Tensor], u: Optional[Tensor] = None,
          decay: Optional[Tensor] = None) -> core.Plan:
    def dtype(x: Optional[Tensor]) -> torch.dtype:
        return torch.float32 if x is None else x.dtype

    return plan_of(_context.generation(), choices, scale, lower_bound, k.shape[-2], v.shape[-2], k.shape[-1],
                   v.shape[-1], k.dtype, dtype(g), beta.dtype, dtype(state), dtype(u), dtype(decay))


def _out(v: Tensor, choices: str) -> Tensor:
    return v.new_empty(v.shape, dtype=getattr(torch, choices.split()[WORDS.index("out_dtype")]))


_ACT = ("Tensor q, Tensor k, Tensor v, Tensor? g, Tensor beta, Tensor? A_log, Tensor? dt_bias, "
        "Tensor? cu_seqlens, Tensor? lengths, ")
_PROBLEM = "str choices, float? scale, float lower_bound"


@torch.library.custom_op(
    "redelta::prefill", mutates_args=("final",),
    schema=f"({_ACT}Tensor? initial, Tensor? initial_slots, Tensor(a!)? final, Tensor? final_slots, {_PROBLEM}) "
           "-> Tensor")
def _prefill(q, k, v, g, beta, A_log, dt_bias, cu_seqlens, lengths, initial, initial_slots,  # type: ignore
             final, final_slots, choices, scale, lower_bound):
    plan = _plan(choices, scale, lower_bound, k, v, g, beta, initial if final is None else final)
    return plan.prefill(q, k, v, g, beta, A_log=A_log, dt_bias=dt_bias, cu_seqlens=cu_seqlens, lengths=lengths,
                        initial=initial, initial_slots=initial_slots, final=final, final_slots=final_slots)


@_prefill.register_fake
def _(q, k, v, g, beta, A_log, dt_bias, cu_seqlens, lengths, initial, initial_slots, final,  # type: ignore
      final_slots, choices, scale, lower_bound):
    return _out(v, choices)


@torch.library.custom_op(
    "redelta::decode", mutates_args=("state",),
    schema=f"({_ACT}Tensor(a!) state, Tensor? slots, Tensor? write_slots, {_PROBLEM}) -> Tensor")
def _decode(q, k, v, g, beta, A_log, dt_bias, cu_seqlens, lengths, state, slots, write_slots,  # type: ignore
            choices, scale, lower_bound):
    return _plan(choices, scale, lower_bound, k, v, g, beta, state).decode(
        q, k, v, g, beta, A_log=A_log, dt_bias=dt_bias, cu_seqlens=cu_seqlens, lengths=lengths, state=state,
        slots=slots, write_slots=write_slots)


@_decode.register_fake
def _(q, k, v, g, beta, A_log, dt_bias, cu_seqlens, lengths, state, slots, write_slots, choices,  # type: ignore
      scale, lower_bound):
    return _out(v, choices)


@torch.library.custom_op(
    "redelta::verify", mutates_args=("u", "keys", "decay", "record_lengths", "record_parents"),
    schema=f"({_ACT}Tensor? parents, Tensor state, Tensor? slots, Tensor(a!) u, Tensor(b!) keys, "
           f"Tensor(c!)? decay, Tensor(d!) record_lengths, Tensor(e!)? record_parents, {_PROBLEM}) -> Tensor")
def _verify(q, k, v, g, beta, A_log, dt_bias, cu_seqlens, lengths, parents, state, slots, u, keys,  # type: ignore
            decay, record_lengths, record_parents, choices, scale, lower_bound):
    plan = _plan(choices, scale, lower_bound, k, v, g, beta, state, u, decay)
    if parents is not None and record_parents is None:
        raise _errors.RedeltaValueError("record_parents: required with parents, but absent", 24)
    records = plan.records_from(u, keys, decay)
    for name, x, shape in (("record_lengths", record_lengths, records.lengths.shape),
                           ("record_parents", record_parents, records.parents.shape)):
        if x is not None and (x.dtype is not torch.int32 or x.shape != shape):
            raise _errors.RedeltaValueError(f"{name}: expected int32 {tuple(shape)}, got {x.dtype} {tuple(x.shape)}")
    out = plan.verify(q, k, v, g, beta, state=state, records=records, slots=slots, A_log=A_log, dt_bias=dt_bias,
                      cu_seqlens=cu_seqlens, lengths=lengths, parents=parents)
    record_lengths.copy_(torch.from_numpy(records.lengths))
    if record_parents is not None:
        record_parents.copy_(torch.from_numpy(records.parents))
    return out


@_verify.register_fake
def _(q, k, v, g, beta, A_log, dt_bias, cu_seqlens, lengths, parents, state, slots, u, keys, decay,  # type: ignore
      record_lengths, record_parents, choices, scale, lower_bound):
    return _out(v, choices)


@torch.library.custom_op(
    "redelta::commit", mutates_args=("state",),
    schema="(Tensor u, Tensor keys, Tensor? decay, Tensor record_lengths, Tensor? record_parents, "
           "Tensor accepted, Tensor(a!) state, Tensor? slots, str choices) -> ()")
def _commit(u, keys, decay, record_lengths, record_parents, accepted, state, slots, choices):  # type: ignore
    plan = plan_of(_context.generation(), choices, None, -5.0, keys.shape[-2], u.shape[-2], keys.shape[-1],
                   u.shape[-1], torch.float32, torch.float32, torch.float32, state.dtype, u.dtype,
                   torch.float32 if decay is None else decay.dtype)
    records, problem = plan.records_from(u, keys, decay), plan.problem
    if record_lengths.shape != records.lengths.shape:
        raise _errors.RedeltaValueError(f"record_lengths: expected [{len(records.lengths)}], got "
                                        f"{list(record_lengths.shape)}")
    if record_lengths.numel() and not 0 <= int(record_lengths.min()) <= int(record_lengths.max()) <= records.capacity:
        raise _errors.RedeltaValueError(f"record_lengths: expected 0 to {records.capacity}", 16)
    records._lengths[:len(records.lengths)] = record_lengths.numpy()
    made = records._struct.made
    made.magic, made.tree = _MADE_BY_VERIFY, record_parents is not None
    made.gate_kind = 1 if problem.gate == "none" else 2 if problem.gate_axis == "per_head" else 3
    made.head_map = core.choice("head_map", problem.head_map)
    made.batch, made.C = u.shape[0], u.shape[1]
    made.Hk, made.Hv, made.K, made.V = problem.Hk, problem.Hv, problem.K, problem.V
    if record_parents is not None:
        if record_parents.shape != records.parents.shape:
            raise _errors.RedeltaValueError(f"record_parents: expected {records.parents.shape}, got "
                                            f"{tuple(record_parents.shape)}")
        records._parents[...] = record_parents.numpy()
    plan.commit(records, accepted, state=state, slots=slots)


@_commit.register_fake
def _(u, keys, decay, record_lengths, record_parents, accepted, state, slots, choices):  # type: ignore
    return None


# ------------------------------------------------------------------------------- functions --------


def prefill(q: Tensor, k: Tensor, v: Tensor, g: Optional[Tensor], beta: Tensor, *, choices: str,
            scale: Optional[float] = None, lower_bound: float = -5.0, A_log: Optional[Tensor] = None,
            dt_bias: Optional[Tensor] = None, cu_seqlens: Optional[Tensor] = None,
            lengths: Optional[Tensor] = None, initial: Optional[Tensor] = None,
            initial_slots: Optional[Tensor] = None, final: Optional[Tensor] = None,
            final_slots: Optional[Tensor] = None) -> Tensor:
    """:meth:`redelta.Plan.prefill`; ``final`` is written and may not be ``initial``."""
    return torch.ops.redelta.prefill(q, k, v, g, beta, A_log, dt_bias, cu_seqlens, lengths, initial,
                                     initial_slots, final, final_slots, choices, scale, lower_bound)


def decode(q: Tensor, k: Tensor, v: Tensor, g: Optional[Tensor], beta: Tensor, *, state: Tensor, choices: str,
           scale: Optional[float] = None, lower_bound: float = -5.0, slots: Optional[Tensor] = None,
           write_slots: Optional[Tensor] = None, A_log: Optional[Tensor] = None,
           dt_bias: Optional[Tensor] = None, cu_seqlens: Optional[Tensor] = None,
           lengths: Optional[Tensor] = None) -> Tensor:
    """:meth:`redelta.Plan.decode`; ``state`` is written."""
    return torch.ops.redelta.decode(q, k, v, g, beta, A_log, dt_bias, cu_seqlens, lengths, state, slots,
                                    write_slots, choices, scale, lower_bound)


def verify(q: Tensor, k: Tensor, v: Tensor, g: Optional[Tensor], beta: Tensor, *, state: Tensor, u: Tensor,
           keys: Tensor, decay: Optional[Tensor], record_lengths: Tensor, choices: str,
           record_parents: Optional[Tensor] = None, scale: Optional[float] = None, lower_bound: float = -5.0,
           slots: Optional[Tensor] = None, A_log: Optional[Tensor] = None, dt_bias: Optional[Tensor] = None,
           cu_seqlens: Optional[Tensor] = None, lengths: Optional[Tensor] = None,
           parents: Optional[Tensor] = None) -> Tensor:
    """:meth:`redelta.Plan.verify`. The records are written: ``u`` [B,C,Hv,V], ``keys`` [B,C,Hk,K], ``decay``
    [B,C,Hv,K] or [B,C,Hv] (None without a gate), ``record_lengths`` [B] and, for trees, ``record_parents``
    [B,C], both int32."""
    return torch.ops.redelta.verify(q, k, v, g, beta, A_log, dt_bias, cu_seqlens, lengths, parents, state, slots,
                                    u, keys, decay, record_lengths, record_parents, choices, scale, lower_bound)


def commit(u: Tensor, keys: Tensor, decay: Optional[Tensor], record_lengths: Tensor, accepted: Tensor, *,
           state: Tensor, choices: str, record_parents: Optional[Tensor] = None,
           slots: Optional[Tensor] = None) -> None:
    """:meth:`redelta.Plan.commit` of records that :func:`verify` wrote; ``state`` is written."""
    torch.ops.redelta.commit(u, keys, decay, record_lengths, record_parents, accepted, state, slots, choices)
