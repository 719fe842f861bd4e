"""The named operators as ``torch.library`` custom operators (torch 2.4 or newer).

Same names, parameters and results as :mod:`redelta.operators`, for programs that use ``torch.compile``
or fake tensors: every operator declares what it mutates and has a shape function, so
``torch.compile(fullgraph=True)`` works. They are registered in the namespace ``redelta``
(``torch.ops.redelta.flash_kda``). In eager code the functions of :mod:`redelta` do the same with less
overhead and need only torch 1.13.

The verbs are there, too: :func:`prefill`, :func:`decode`, :func:`verify` and :func:`commit` take a problem's
choices as the text that :func:`describe` makes of it, sizes and types from their tensors, and the records of
speculation as bare tensors (a second commit of the same records is then not noticed).

No operator has a derivative: a tensor that requires grad while gradients are enabled is refused
(``ValueError``).
"""
from __future__ import annotations

from typing import Optional, Tuple

import torch
from torch import Tensor

from . import _errors
from . import operators as _eager
from ._types import LayoutQKV

__all__ = [*_eager.__all__, "describe", "prefill", "decode", "verify", "commit"]

if not hasattr(torch.library, "custom_op"):
    raise ImportError(f"redelta.torch needs torch 2.4 or newer for torch.library.custom_op; this is "
                      f"{torch.__version__}. The functions of redelta itself work with torch 1.13")

from ._torch_verbs import commit, decode, describe, prefill, verify  # noqa: E402 (needs custom_op)


def _refuse_grad(*tensors: Optional[Tensor]) -> None:
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                raise _errors.RedeltaValueError(
                    "tensor requires grad, and these operators have no derivative: call them under "
                    "torch.no_grad() or pass tensor.detach()")


# ------------------------------------------------------------------------------- registration -----
# Schemas are written out, so that they do not depend on how a torch version reads annotations.

_OPS = "redelta::"


@torch.library.custom_op(
    _OPS + "chunk_gated_delta_rule", mutates_args=(),
    schema="(Tensor query, Tensor key, Tensor value, Tensor beta, Tensor state, "
           "Tensor actual_seq_lengths, Tensor? g=None, float scale_value=1.0) -> (Tensor, Tensor)")
def _chunk(query, key, value, beta, state, actual_seq_lengths, g=None, scale_value=1.0):  # type: ignore
    return _eager.chunk_gated_delta_rule(query, key, value, beta, state, actual_seq_lengths, g,
                                         scale_value)


@_chunk.register_fake
def _(query, key, value, beta, state, actual_seq_lengths, g=None, scale_value=1.0):  # type: ignore
    return value.new_empty(value.shape), state.new_empty(state.shape)


@torch.library.custom_op(
    _OPS + "fused_recurrent_kda_replayssm", mutates_args=("replay_u", "replay_k", "replay_decay"),
    schema="(Tensor mixedqkv, Tensor recurrent_state, Tensor beta, Tensor g, float? scale, Tensor A_log, "
           "Tensor dt_bias, float lower_bound, str layout_qkv, Tensor(a!) replay_u, Tensor(b!) replay_k, "
           "Tensor(c!) replay_decay, Tensor? cu_seqlens=None, int? block_num=None) -> Tensor")
def _verify(mixedqkv, recurrent_state, beta, g, scale, A_log, dt_bias, lower_bound,  # type: ignore
            layout_qkv, replay_u, replay_k, replay_decay, cu_seqlens=None, block_num=None):
    return _eager.fused_recurrent_kda_replayssm(
        mixedqkv, recurrent_state, beta, g, scale, A_log, dt_bias, lower_bound, layout_qkv,
        replay_u=replay_u, replay_k=replay_k, replay_decay=replay_decay, cu_seqlens=cu_seqlens,
        block_num=block_num)


@_verify.register_fake
def _(mixedqkv, recurrent_state, beta, g, *more):  # type: ignore
    return g.new_empty(g.shape)


@torch.library.custom_op(
    _OPS + "commit_recurrent_kda_replayssm", mutates_args=("recurrent_state",),
    schema="(Tensor(a!) recurrent_state, Tensor replay_u, Tensor replay_k, Tensor replay_decay, "
           "Tensor num_accepted_tokens, int? block_num=None) -> ()")
def _commit(recurrent_state, replay_u, replay_k, replay_decay, num_accepted_tokens,  # type: ignore
            block_num=None):
    _eager.commit_recurrent_kda_replayssm(recurrent_state, replay_u, replay_k, replay_decay,
                                          num_accepted_tokens, block_num)


@_commit.register_fake
def _(*arguments):  # type: ignore
    return None


@torch.library.custom_op(
    _OPS + "flash_kda_metadata", mutates_args=(),
    schema="(Tensor q, Tensor v, Tensor initial_state, str layout_qkv, Tensor? cu_seqlens=None) -> Tensor")
def _metadata(q, v, initial_state, layout_qkv, cu_seqlens=None):  # type: ignore
    return _eager.flash_kda_metadata(q, v, initial_state, layout_qkv, cu_seqlens)


def _metadata_sizes() -> dict:
    """(layout, with cu_seqlens?) -> (words for one sequence, words for each further one).

    Learned from the library on empty tensors, once and outside of any tracing: a schedule's size is
    linear in the number of sequences, and only C knows the numbers.
    """
    sizes = {}
    cases: list[Tuple[LayoutQKV, int]] = [("BSND", 0), ("BSND", 1), ("BNSD", 0), ("BNSD", 1), ("TND", 1)]
    for layout, given in cases:
        words = []
        for batch in (1, 2):
            shape = (0, 1, 128) if layout == "TND" else (batch, *((0, 1) if layout == "BSND" else (1, 0)), 128)
            x = torch.zeros(shape, dtype=torch.bfloat16)
            cu_seqlens = torch.zeros(batch + 1, dtype=torch.int32) if given else None
            state = torch.zeros(batch, 1, 128, 128)
            words.append(_eager.flash_kda_metadata(x, x, state, layout, cu_seqlens).numel())
        sizes[layout, bool(given)] = words[0], words[1] - words[0]
    return sizes


_METADATA_SIZES = _metadata_sizes()


@_metadata.register_fake
def _(q, v, initial_state, layout_qkv, cu_seqlens=None):  # type: ignore
    first, step = _METADATA_SIZES[layout_qkv, cu_seqlens is not None]
    return q.new_empty((first + step * (initial_state.shape[0] - 1),), dtype=torch.int32)


@torch.library.custom_op(
    _OPS + "flash_kda", mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta, float? scale, Tensor initial_state, "
           "Tensor A_log, Tensor dt_bias, float lower_bound=-5.0, str layout_qkv='BNSD', "
           "Tensor? metadata=None) -> (Tensor, Tensor)")
def _flash(q, k, v, g, beta, scale, initial_state, A_log, dt_bias, lower_bound=-5.0,  # type: ignore
           layout_qkv="BNSD", metadata=None):
    return _eager.flash_kda(q, k, v, g, beta, scale, initial_state, A_log, dt_bias, lower_bound,
                            layout_qkv, metadata)


@_flash.register_fake
def _(q, k, v, g, beta, scale, initial_state, *more, **named):  # type: ignore
    return v.new_empty(v.shape), initial_state.new_empty(initial_state.shape)


@torch.library.custom_op(
    _OPS + "fused_recurrent_kda", mutates_args=("state",),
    schema="(Tensor mixedqkv, Tensor(a!) state, Tensor beta, Tensor g, float? scale, Tensor A_log, "
           "Tensor dt_bias, float lower_bound, str layout_qkv, Tensor? cu_seqlens=None, "
           "Tensor? ssm_state_indices=None, Tensor? num_accepted_tokens=None) -> Tensor")
def _decode(mixedqkv, state, beta, g, scale, A_log, dt_bias, lower_bound, layout_qkv,  # type: ignore
            cu_seqlens=None, ssm_state_indices=None, num_accepted_tokens=None):
    return _eager.fused_recurrent_kda(
        mixedqkv, state, beta, g, scale, A_log, dt_bias, lower_bound, layout_qkv, cu_seqlens=cu_seqlens,
        ssm_state_indices=ssm_state_indices, num_accepted_tokens=num_accepted_tokens)[1]


@_decode.register_fake
def _(mixedqkv, state, beta, g, *more):  # type: ignore
    return g.new_empty(g.shape)


# ------------------------------------------------------------------------------- functions --------


def chunk_gated_delta_rule(query: Tensor, key: Tensor, value: Tensor, beta: Tensor, state: Tensor,
                           actual_seq_lengths: Tensor, g: Optional[Tensor] = None,
                           scale_value: float = 1.0) -> Tuple[Tensor, Tensor]:
    """See :func:`redelta.chunk_gated_delta_rule`."""
    _refuse_grad(query, key, value, beta, state, g)
    return torch.ops.redelta.chunk_gated_delta_rule(query, key, value, beta, state, actual_seq_lengths, g,
                                                    scale_value)


def fused_recurrent_kda_replayssm(
        mixedqkv: Tensor, recurrent_state: Tensor, beta: Tensor, g: Tensor, scale: Optional[float],
        A_log: Tensor, dt_bias: Tensor, lower_bound: float = -5.0, layout_qkv: LayoutQKV = "BSND", *,
        replay_u: Tensor, replay_k: Tensor, replay_decay: Tensor, cu_seqlens: Optional[Tensor] = None,
        block_num: Optional[int] = None) -> Tensor:
    """See :func:`redelta.fused_recurrent_kda_replayssm`."""
    _refuse_grad(mixedqkv, recurrent_state, beta, g, A_log, dt_bias, replay_u, replay_k, replay_decay)
    return torch.ops.redelta.fused_recurrent_kda_replayssm(
        mixedqkv, recurrent_state, beta, g, scale, A_log, dt_bias, lower_bound, layout_qkv, replay_u,
        replay_k, replay_decay, cu_seqlens, block_num)


def commit_recurrent_kda_replayssm(recurrent_state: Tensor, replay_u: Tensor, replay_k: Tensor,
                                   replay_decay: Tensor, num_accepted_tokens: Tensor,
                                   block_num: Optional[int] = None) -> None:
    """See :func:`redelta.commit_recurrent_kda_replayssm`."""
    _refuse_grad(recurrent_state, replay_u, replay_k, replay_decay)
    torch.ops.redelta.commit_recurrent_kda_replayssm(recurrent_state, replay_u, replay_k, replay_decay,
                                                     num_accepted_tokens, block_num)


def flash_kda_metadata(q: Tensor, v: Tensor, initial_state: Tensor, layout_qkv: LayoutQKV,
                       cu_seqlens: Optional[Tensor] = None) -> Tensor:
    """See :func:`redelta.flash_kda_metadata`."""
    _refuse_grad(q, v, initial_state)
    return torch.ops.redelta.flash_kda_metadata(q, v, initial_state, layout_qkv, cu_seqlens)


def flash_kda(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, scale: Optional[float],
              initial_state: Tensor, A_log: Tensor, dt_bias: Tensor, lower_bound: float = -5.0,
              layout_qkv: LayoutQKV = "BNSD", metadata: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    """See :func:`redelta.flash_kda`."""
    _refuse_grad(q, k, v, g, beta, initial_state, A_log, dt_bias)
    return torch.ops.redelta.flash_kda(q, k, v, g, beta, scale, initial_state, A_log, dt_bias, lower_bound,
                                       layout_qkv, metadata)


def fused_recurrent_kda(mixedqkv: Tensor, state: Tensor, beta: Tensor, g: Tensor, scale: Optional[float],
                        A_log: Tensor, dt_bias: Tensor, lower_bound: float = -5.0,
                        layout_qkv: LayoutQKV = "BSND", *, cu_seqlens: Optional[Tensor] = None,
                        ssm_state_indices: Optional[Tensor] = None,
                        num_accepted_tokens: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    """See :func:`redelta.fused_recurrent_kda`."""
    _refuse_grad(mixedqkv, state, beta, g, A_log, dt_bias)
    out = torch.ops.redelta.fused_recurrent_kda(
        mixedqkv, state, beta, g, scale, A_log, dt_bias, lower_bound, layout_qkv, cu_seqlens,
        ssm_state_indices, num_accepted_tokens)
    return state, out
