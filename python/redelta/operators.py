"""The field's named operators, on CPU memory, with exactly the field's names, parameters and results.

Arrays may be NumPy arrays (bfloat16 from ``ml_dtypes``), PyTorch CPU tensors or anything with
``__dlpack__``; results are of the same library as the inputs. Nothing is copied on the way in. On any
error nothing has been written. Shapes use B batch, T or S tokens, Hk and Hv (N where they are equal)
key and value heads, K and V key and value sizes, C record capacity.

Every operator computes, per sequence and value head and in token order::

    S  <- S diag(a_t)                  a_t: the decay, one number (GDN) or K numbers (KDA)
    u_t = beta_t (v_t - S k_t)
    S  <- S + u_t k_t'
    o_t = scale S q_t

with S of V rows and K columns in float32. Sources: Gated Delta Networks (arXiv 2412.06464), Kimi Linear
(arXiv 2510.26692). The bits of the results do not depend on threads, batch or instruction set.

Errors of all operators: ``TypeError`` for something that is not an array, a missing one, or an element
type the table does not list; ``ValueError`` for everything else - shapes, strides (negative, innermost
not 1), overlapping outputs, values of lengths and indices, non-finite scale, a read-only array where it
is written in place, a torch tensor that requires grad while gradients are enabled. All of them are
:class:`redelta.Error` and carry the C library's message and status.
"""
from __future__ import annotations

import functools
from ctypes import byref, c_int64
from typing import Any, Callable, Tuple, TypeVar

from . import _array, _errors, _lib
from ._frame import Operation, enter
from ._types import AnyArray, Array, LayoutQKV, StateArray

__all__ = ["chunk_gated_delta_rule", "fused_recurrent_kda_replayssm",
           "commit_recurrent_kda_replayssm", "flash_kda", "flash_kda_metadata", "fused_recurrent_kda"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _operation(name: str, struct: type, arrays: str, optional: str = "", writes: str = "") -> Operation:
    names = arrays.split()
    return Operation(
        f"rd_{name}", [(struct, getattr(_lib.lib, f"rd_{name}_init_sized"), False)],
        [(array, 0, array) for array in names], writes=writes,
        required=" ".join(array for array in names if array not in optional.split()))


_CHUNK = _operation("chunk_gated_delta_rule", _lib.ChunkGatedDeltaRule,
                    "query key value beta state actual_seq_lengths g out final_state", optional="g")
_VERIFY = _operation("fused_recurrent_kda_replayssm", _lib.FusedRecurrentKdaReplayssm,
                     "mixedqkv recurrent_state beta g A_log dt_bias replay_u replay_k replay_decay "
                     "cu_seqlens out", optional="cu_seqlens", writes="replay_u replay_k replay_decay")
_COMMIT = _operation("commit_recurrent_kda_replayssm", _lib.CommitRecurrentKdaReplayssm,
                     "recurrent_state replay_u replay_k replay_decay num_accepted_tokens",
                     writes="recurrent_state")
_METADATA = _operation("flash_kda_metadata", _lib.FlashKdaMetadata,
                       "q v initial_state cu_seqlens metadata", optional="cu_seqlens metadata")
_FLASH = _operation("flash_kda", _lib.FlashKda,
                    "q k v g beta initial_state A_log dt_bias metadata out final_state",
                    optional="metadata")
_DECODE = _operation("fused_recurrent_kda", _lib.FusedRecurrentKda,
                     "mixedqkv state beta g A_log dt_bias cu_seqlens ssm_state_indices "
                     "num_accepted_tokens out",
                     optional="cu_seqlens ssm_state_indices num_accepted_tokens", writes="state")

_LAYOUTS = {"BSND": 1, "BNSD": 2, "TND": 3}


def _layout(layout_qkv: str) -> int:
    code = _LAYOUTS.get(layout_qkv) if isinstance(layout_qkv, str) else None
    if code is None:
        kind = _errors.RedeltaValueError if isinstance(layout_qkv, str) else _errors.RedeltaTypeError
        raise kind(f"layout_qkv: must be 'BSND', 'BNSD' or 'TND', got {_errors.shown(layout_qkv)}", 3)
    return code


def _block_num(block_num: int | None) -> int:
    if block_num is None:
        return 0
    found = _errors.integer("block_num", block_num)
    if found not in (8, 24, 28, 32):  # 0 is C's None and must not slip through
        raise _errors.RedeltaValueError(f"block_num: must be 8, 24, 28, 32 or None, got {found}", 21)
    return found


def _like(name: str, array: Array) -> Any:
    """An output with the library, element type and shape of an input."""
    if array is None:
        raise _errors.RedeltaTypeError(f"{name}: expected an array, got None", 1)
    try:
        return _array.empty_like(array, _array.shape_of(array))
    except _errors.Error as error:
        raise type(error)(f"{name}: {error}", error.status) from None


def _set_gate(params: Any, scale: float | None, lower_bound: float, layout_qkv: str) -> None:
    params.has_scale = scale is not None
    params.scale = 0.0 if scale is None else _errors.number("scale", scale)
    params.lower_bound = _errors.number("lower_bound", lower_bound)
    params.layout_qkv = _layout(layout_qkv)


# ------------------------------------------------------------------------------- GDN prefill ------

_LIBRARY = "the flash-linear-attention library"
_FLA = (f"this looks like a call of the chunk_gated_delta_rule of {_LIBRARY} "
        "(q, k, v, g, beta, scale, initial_state, ... with tensors [B,T,H,D]). redelta's operator of this "
        "name takes (query, key, value, beta, state, actual_seq_lengths, g=None, scale_value=1.0) with "
        "tensors [B,H,T,D], a state [B,Hv,K,V] and int32 lengths, and returns (out, final_state); redelta.fla has that "
        "library's")
_FLA_KDA = (f"this looks like a call of the fused_recurrent_kda of {_LIBRARY} "
            "(q, k, v, g, beta, A_log, dt_bias, scale, initial_state, ... with tensors [B,T,H,D]). redelta's "
            "operator of this name takes (mixedqkv, state, beta, g, scale, A_log, dt_bias, lower_bound=-5.0, "
            "layout_qkv='BSND') with q, k and v in one tensor and a state [R,N,128,128] that is written in "
            "place, and returns (state, out); redelta.fla has that library's, redelta.Plan takes q, k and v apart")
#: Parameters of the other library that neither operator has.
_FLA_NAMES = frozenset("q k v initial_state output_final_state use_qk_l2norm_in_kernel head_first "
                       "transpose_state_layout state_v_first use_gate_in_kernel "
                       "use_beta_sigmoid_in_kernel".split())


def _rank(array: Any) -> int:
    shape = getattr(array, "shape", None)
    return len(shape) if isinstance(shape, tuple) else -1


def _like_fla_gdn(args: tuple, kwargs: dict) -> bool:
    fifth: Any = args[4] if len(args) > 4 else kwargs.get("state")
    return (not (_FLA_NAMES | {"scale", "cu_seqlens"}).isdisjoint(kwargs)
            or len(args) == 5 and "actual_seq_lengths" not in kwargs and _rank(fifth) == 3
            or len(args) > 5 and (args[5] is None or isinstance(args[5], float))
            or len(args) > 4 and _rank(args[3]) == _rank(args[4]) == 3)


def _like_fla_kda(args: tuple, kwargs: dict) -> bool:
    # The fifth argument is a scale here and beta there; the third is beta here and v there.
    return (not _FLA_NAMES.isdisjoint(kwargs) or len(args) > 4 and _rank(args[4]) >= 2
            or len(args) > 2 and "beta" in kwargs)


def _tells_fla_apart(looks: Callable[[tuple, dict], bool], hint: str) -> Callable[[_Function], _Function]:
    """Turns the errors of a call written for the other library of the same name into one that says so."""

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except (TypeError, ValueError) as error:
                if looks(args, kwargs):
                    raise _errors.RedeltaTypeError(hint) from error
                value: Any = args[2] if len(args) > 2 else kwargs.get("value")
                state: Any = args[4] if len(args) > 4 else kwargs.get("state")
                if (hint is _FLA and isinstance(error, _errors.Error) and _rank(value) == _rank(state) == 4
                        and value.shape[1] != state.shape[1] == value.shape[2]):
                    raise type(error)(f"{error}. The tensors look like [B,T,H,D]: {hint}",
                                      error.status) from error
                raise

        return wrapper  # type: ignore[return-value]

    return decorate


@_tells_fla_apart(_like_fla_gdn, _FLA)
def chunk_gated_delta_rule(query: Array, key: Array, value: AnyArray, beta: Array, state: StateArray,
                           actual_seq_lengths: Array, g: Array | None = None,
                           scale_value: float = 1.0) -> Tuple[AnyArray, StateArray]:
    """Gated DeltaNet prefill: whole sequences, outputs and final states.

    ``a_t = exp(g_t)``, one number per head (1 without ``g``); ``o_t = scale_value S q_t``. Queries and
    keys are used as given (the caller normalises them). Value head hv reads key head hv // (Hv/Hk).

    ==================  ============  ================================================
    query, key          [B,Hk,T,K]    float16, bfloat16 or float32
    value               [B,Hv,T,V]    as query
    beta                [B,Hv,T]      as query; values, not logits
    state               [B,Hv,K,V]    as query, or float32; read only
    actual_seq_lengths  [B]           int32, each in 0..T
    g                   [B,Hv,T]      float32 log decay, or None
    ==================  ============  ================================================

    Returns ``(out [B,Hv,T,V] as query, final_state [B,Hv,K,V] as state)``. Output rows past a length are
    zero; a sequence of length 0 passes its state through unchanged. Strided views are accepted as long
    as the innermost stride is 1.

    Raises ``TypeError`` and ``ValueError`` as the module says; a call written for the PyTorch library
    that has a function of the same name (``q, k, v, g, beta, scale``, [B,T,H,D]) is told so.
    """
    out, final_state = _like("value", value), _like("state", state)
    caller, frame = enter(_CHUNK, (query, key, value, beta, state, actual_seq_lengths, g, out,
                                    final_state))
    frame.params.scale_value = _errors.number("scale_value", scale_value)
    frame.run(caller)
    return out, final_state


# ------------------------------------------------------------------------------- KDA --------------


def fused_recurrent_kda_replayssm(
        mixedqkv: Array, recurrent_state: Array, beta: Array, g: AnyArray, scale: float | None,
        A_log: Array, dt_bias: Array, lower_bound: float = -5.0, layout_qkv: LayoutQKV = "BSND", *,
        replay_u: Array, replay_k: Array, replay_decay: Array, cu_seqlens: Array | None = None,
        block_num: int | None = None) -> AnyArray:
    """KDA verify: outputs of all candidate tokens, and the records that let a commit replay them.

    q and k are l2-normalised (eps 1e-6 inside the root); ``a_t = exp(lower_bound sigmoid(exp(A_log)
    (g + dt_bias)))`` per channel; ``beta_t = sigmoid(beta)``; ``scale=None`` means 128^-1/2. The
    checkpoint ``recurrent_state`` is never written.

    =====================  ================  ================  ================  ========
    .                      BSND              BNSD              TND
    =====================  ================  ================  ================  ========
    mixedqkv (Q, K, V)     [B,S,3N*128]      [B,3N,S,128]      [T,3N*128]        bfloat16
    beta (logits)          [B,S,N,1]         [B,N,S,1]         [T,N,1]           bfloat16
    g (raw)                [B,S,N,128]       [B,N,S,128]       [T,N,128]         bfloat16
    recurrent_state        [B,N,128,128]     same              same              float32
    A_log, dt_bias         [N], [N,128]      same              same              float32
    replay_u, replay_k     [B,C,N,128]       same              same              float16
    replay_decay           [B,C,N,128]       same              same              float32
    cu_seqlens             None              None              [B+1]             int32
    =====================  ================  ================  ================  ========

    The three ``replay_*`` arrays are **written in place** up to each sequence's length; rows past it
    keep their bytes. ``cu_seqlens`` rises strictly from 0 to T. 1 <= N <= 96, every length is at least
    1 and at most C. ``block_num`` (8, 24, 28, 32 or None) shapes the cut of the work, never a bit.

    Returns ``out`` in the shape and type of ``g``.
    """
    block_num = _block_num(block_num)
    out = _like("g", g)
    caller, frame = enter(_VERIFY, (mixedqkv, recurrent_state, beta, g, A_log, dt_bias, replay_u,
                                     replay_k, replay_decay, cu_seqlens, out))
    params = frame.params
    _set_gate(params, scale, lower_bound, layout_qkv)
    params.block_num = block_num
    frame.run(caller)
    return out


def commit_recurrent_kda_replayssm(recurrent_state: Array, replay_u: Array, replay_k: Array,
                                   replay_decay: Array, num_accepted_tokens: Array,
                                   block_num: int | None = None) -> None:
    """KDA commit: replays the accepted prefix of a verify's records into the checkpoint, in place.

    For the first ``num_accepted_tokens[b]`` records of each sequence, in token order:
    ``S <- S diag(decay_i) + u_i k_i'`` in float32.

    ``recurrent_state`` [B,N,128,128] float32, **written in place**; ``replay_u``, ``replay_k``
    [B,C,N,128] float16 and ``replay_decay`` [B,C,N,128] float32, read only; ``num_accepted_tokens`` [B]
    int32, each in 0..C (0 leaves the state's bytes alone). ``block_num`` as in
    :func:`fused_recurrent_kda_replayssm`. Returns None.
    """
    block_num = _block_num(block_num)
    caller, frame = enter(_COMMIT, (recurrent_state, replay_u, replay_k, replay_decay,
                                     num_accepted_tokens))
    frame.params.block_num = block_num
    frame.run(caller)


def flash_kda_metadata(q: AnyArray, v: Array, initial_state: Array, layout_qkv: LayoutQKV,
                       cu_seqlens: Array | None = None) -> AnyArray:
    """A schedule for :func:`flash_kda`, reusable by every layer with the same shapes and lengths.

    Reads shapes and lengths only. ``q``, ``v``, ``initial_state`` and ``layout_qkv`` as in
    :func:`flash_kda`; ``cu_seqlens`` [B+1] int32 or int64 is required for TND (it ends at T) and
    optional otherwise, where it gives each sequence's length (at most S).

    Returns an opaque 1-D int32 array of the same library as ``q``.
    """
    layout = _layout(layout_qkv)
    caller, frame = enter(_METADATA, (q, v, initial_state, cu_seqlens, None))
    frame.params.layout_qkv = layout
    size = c_int64()
    caller.call(_lib.lib.rd_flash_kda_metadata_size, byref(frame.params), byref(size))
    metadata = _array.empty_like(q, (size.value,), "int32")
    caller, frame = enter(_METADATA, (q, v, initial_state, cu_seqlens, metadata))
    frame.params.layout_qkv = layout
    frame.run(caller)
    return metadata


def flash_kda(q: Array, k: Array, v: AnyArray, g: Array, beta: Array, scale: float | None,
              initial_state: StateArray, A_log: Array, dt_bias: Array, lower_bound: float = -5.0,
              layout_qkv: LayoutQKV = "BNSD", metadata: Array | None = None) -> Tuple[AnyArray, StateArray]:
    """KDA prefill: whole sequences, outputs and final states.

    Gate, beta, normalisation and scale as in :func:`fused_recurrent_kda_replayssm`; value head hv reads
    key head hv // (Hv/Hk).

    ================  ==============  ==============  ============  ========
    .                 BNSD            BSND            TND
    ================  ==============  ==============  ============  ========
    q, k              [B,Hk,S,128]    [B,S,Hk,128]    [T,Hk,128]    bfloat16
    v, g              [B,Hv,S,128]    [B,S,Hv,128]    [T,Hv,128]    bfloat16
    beta (logits)     [B,Hv,S]        [B,S,Hv]        [T,Hv]        bfloat16
    initial_state     [B,Hv,128,128]  same            same          float32
    A_log, dt_bias    [Hv], [Hv,128]  same            same          float32
    ================  ==============  ==============  ============  ========

    ``metadata`` comes from :func:`flash_kda_metadata` for the same shapes and carries the lengths;
    without it every sequence has S tokens (TND: one sequence). ``initial_state`` is read only.

    Returns ``(out as v, final_state as initial_state)``.
    """
    out, final_state = _like("v", v), _like("initial_state", initial_state)
    caller, frame = enter(_FLASH, (q, k, v, g, beta, initial_state, A_log, dt_bias, metadata, out,
                                    final_state))
    _set_gate(frame.params, scale, lower_bound, layout_qkv)
    frame.run(caller)
    return out, final_state


@_tells_fla_apart(_like_fla_kda, _FLA_KDA)
def fused_recurrent_kda(mixedqkv: Array, state: StateArray, beta: Array, g: AnyArray, scale: float | None,
                        A_log: Array, dt_bias: Array, lower_bound: float = -5.0,
                        layout_qkv: LayoutQKV = "BSND", *, cu_seqlens: Array | None = None,
                        ssm_state_indices: Array | None = None,
                        num_accepted_tokens: Array | None = None) -> Tuple[StateArray, AnyArray]:
    """KDA decode with a state snapshot per token.

    Tensors and equations as in :func:`fused_recurrent_kda_replayssm`, and

    ===================  ==============  ===================================================
    state                [R,N,128,128]   float32 or bfloat16, **written in place**; R >= tokens
    ssm_state_indices    [B*S] or [T]    int32: the state after token t goes to that slot
    num_accepted_tokens  [B]             int32, each in 0..length
    ===================  ==============  ===================================================

    ``ssm_state_indices`` defaults to 0, 1, 2, ...; slots lie in 0..R-1, none is written twice and none
    is written by one sequence and read by another. Sequence b starts from the slot at index
    ``max(num_accepted_tokens[b], 1) - 1`` of its tokens (default: the first). The running state stays
    float32; a bfloat16 snapshot is rounded once.

    Returns ``(state, out)``: the array passed in, and outputs in the shape and type of ``g``.
    """
    out = _like("g", g)
    caller, frame = enter(_DECODE, (mixedqkv, state, beta, g, A_log, dt_bias, cu_seqlens,
                                     ssm_state_indices, num_accepted_tokens, out))
    _set_gate(frame.params, scale, lower_bound, layout_qkv)
    frame.run(caller)
    return state, out
