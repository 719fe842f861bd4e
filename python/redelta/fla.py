"""FLA's gated delta rule and KDA functions, on CPUs.

The four functions have the names, parameters, order and defaults of flash-linear-attention 0.6, so that a
model written for that library runs on a CPU without Triton::

    from redelta.fla import chunk_kda
    o, final_state = chunk_kda(q, k, v, g, beta, use_qk_l2norm_in_kernel=True, output_final_state=True)

Per sequence and value head, S [K,V] in float32::

    S <- diag(e^g) S;   u = beta (v - S' k);   S <- S + k u';   o = scale S' q

=================  =====================================================================================
q, k               [B,T,H,K], float32, float16, bfloat16; float64 is computed in float32
v                  [B,T,HV,V]; HV is a multiple of H, value head h reads key head h // (HV/H)
g                  log decay: [B,T,HV] (gated delta rule) or [B,T,HV,K] (KDA); None: no decay
beta               [B,T,HV]; None in the recurrent gated delta rule: ones
scale              None: K^-1/2
initial_state      [N,HV,K,V] ([N,HV,V,K] with ``state_v_first``) of any float type, or None: zeros
cu_seqlens         [N+1]: the sequences lie one behind the other in a batch of 1
A_log, dt_bias     with ``use_gate_in_kernel``: HV and HV (KDA: HV*K) numbers of any shape; the decay is
                   -exp(A_log) softplus(g + dt_bias), or with ``lower_bound``
                   lower_bound sigmoid(exp(A_log) (g + dt_bias)), where A_log None is zeros
=================  =====================================================================================

Returns ``(o, final_state)``: o [B,T,HV,V] in q's type; the final state in float32, None without
``output_final_state``. Both are new tensors in every call. Any strides do; nothing is copied except what
has a type that is converted. The results are EXACT: the same bits for every split of a sequence, batch,
number of threads and instruction set, so a prefill and decoding token by token agree.

There is no derivative. Where one is asked for (gradients are enabled and an input requires them) the same
recurrence runs in plain torch, slowly, and a warning says so once.

Under ``torch.compile`` the call becomes the operator ``redelta::prefill`` of :mod:`redelta.torch`.

Not supported (``NotImplementedError``): ``gv``, a beta per element, ``cp_context``,
``return_intermediate_states``. Ignored: ``safe_gate`` beyond its check of ``lower_bound``, ``chunk_size``,
``chunk_indices``, ``cu_seqlens_cpu``, ``disable_recompute``, ``use_graph``, ``max_num_seqs``, and unknown
keywords. Errors are ``ValueError`` and ``TypeError``, before anything is written.
"""
from __future__ import annotations

import warnings
from typing import Any, Optional, Tuple

import torch
from torch import Tensor

from . import _context, _errors, _recurrence
from ._torch_plans import NAMES, plan_of

if hasattr(torch.library, "custom_op"):  # torch 2.4
    from ._torch_verbs import prefill as _prefill

__all__ = ["chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule", "chunk_kda", "fused_recurrent_kda"]

_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)


_warned: set[str] = set()


def warn_once(about: str, level: int) -> None:
    """Says once that torch runs instead, to the caller ``level`` frames up."""
    if not _compiling() and about not in _warned:
        _warned.add(about)
        warnings.warn(f"{about}: an input requires grad, and redelta has no derivative; plain torch computes "
                      "this and is much slower. Use torch.no_grad() or torch.inference_mode() for inference",
                      RuntimeWarning, stacklevel=level)


def wants_grad(*tensors: Optional[Tensor]) -> bool:
    """Whether a derivative is asked for."""
    if torch.is_grad_enabled():
        for x in tensors:
            if x is not None and x.requires_grad:
                return True
    return False


def _check(name: str, q: Tensor, k: Tensor, v: Tensor, g: Optional[Tensor], beta: Tensor, per_head: bool,
           initial_state: Optional[Tensor], v_first: bool, cu_seqlens: Optional[Tensor]) -> int:
    """Shapes, in this function's own words. Returns N."""
    if q.dim() != 4 or k.dim() != 4 or v.dim() != 4:
        raise _errors.RedeltaValueError(f"{name}: q, k and v must have 4 dimensions, got {q.dim()}, {k.dim()} "
                                        f"and {v.dim()}")
    if k.shape != q.shape:
        raise _errors.RedeltaValueError(f"{name}: k must have the shape of q, {tuple(q.shape)}, got "
                                        f"{tuple(k.shape)}")
    B, T, H, K = q.shape
    HV, V = v.shape[2], v.shape[3]
    if HV % H if H else HV:
        raise _errors.RedeltaValueError(f"{name}: v must have a multiple of q's {H} heads, got {HV}")
    if beta.dim() == 4:
        raise NotImplementedError(f"{name}: a beta for every element of v (4 dimensions) is not supported")
    wanted = {"v": (v, (B, T, HV, V)), "beta": (beta, (B, T, HV)),
              "g": (g, (B, T, HV) if per_head else (B, T, HV, K))}
    for letter, (x, shape) in wanted.items():
        if x is not None and x.shape != shape:
            raise _errors.RedeltaValueError(f"{name}: {letter} must have the shape {tuple(shape)}, got "
                                            f"{tuple(x.shape)}")
    N = B
    if cu_seqlens is not None:
        if B != 1:
            raise _errors.RedeltaValueError(f"{name}: with cu_seqlens the batch size must be 1, got {B}")
        if cu_seqlens.dim() != 1 or cu_seqlens.shape[0] < 1:
            raise _errors.RedeltaValueError(f"{name}: cu_seqlens must be a vector of N + 1 numbers")
        N = cu_seqlens.shape[0] - 1
    shape = (N, HV, V, K) if v_first else (N, HV, K, V)
    if initial_state is not None and initial_state.shape != shape:
        raise _errors.RedeltaValueError(f"{name}: initial_state must have the shape {tuple(shape)}, got "
                                        f"{tuple(initial_state.shape)}")
    return N


def _known(x: Tensor) -> Tensor:
    return x if x.dtype in NAMES else x.float()


def _vector(x: Optional[Tensor], *shape: int) -> Optional[Tensor]:
    """A_log or dt_bias, however a model stores it, as float32 of C's shape."""
    return None if x is None else x.reshape(shape).to(torch.float32).contiguous()


def _run(name: str, q: Tensor, k: Tensor, v: Tensor, g: Optional[Tensor], beta: Tensor, *, gate: str,
         per_head: bool, A_log: Optional[Tensor], dt_bias: Optional[Tensor], lower_bound: Optional[float],
         scale: Optional[float], initial_state: Optional[Tensor], output_final_state: bool, l2: bool,
         sigmoid: bool, neg: bool, v_first: bool, cu_seqlens: Optional[Tensor],
         ) -> Tuple[Tensor, Optional[Tensor]]:
    if neg and not sigmoid:
        raise _errors.RedeltaValueError(f"{name}: allow_neg_eigval=True requires use_beta_sigmoid_in_kernel=True")
    v_first = bool(v_first)
    N = _check(name, q, k, v, g, beta, per_head, initial_state, v_first, cu_seqlens)
    HV, K, V = v.shape[2], q.shape[3], v.shape[3]
    raw, times, lb = gate != "log", 2 if neg else 1, -5.0 if lower_bound is None else float(lower_bound)
    scale = None if scale is None else float(scale)
    given = q.dtype
    if raw:
        A_log = _vector(A_log, HV)
        dt_bias = _vector(dt_bias, HV) if per_head else _vector(dt_bias, HV, K)
    if wants_grad(q, k, v, g, beta, initial_state, A_log, dt_bias):
        warn_once(f"redelta.fla.{name}", 5)
        out, state = _recurrence.run(q, k, v, g, beta, gate=gate, A_log=A_log, dt_bias=dt_bias, lower_bound=lb,
                                     scale=scale, initial_state=initial_state, l2=l2, sigmoid=sigmoid,
                                     times=times, v_first=v_first, cu_seqlens=cu_seqlens)
        return out.to(given), state.to(torch.float32) if output_final_state else None
    if given not in NAMES or k.dtype is not given or v.dtype is not given:
        q, k, v = q.float(), k.float(), v.float()
    beta = _known(beta)
    if g is None:
        gate = "none"
    else:
        g = _known(g)
        if raw and gate == "lower_bound" and not -5.0 <= lb <= 0.0:  # beyond what C takes
            g, gate, raw = _recurrence.activate(g.float(), gate, A_log, dt_bias, lb), "log", False
    if not raw or g is None:
        A_log = dt_bias = None
    else:
        A_log = q.new_zeros(HV, dtype=torch.float32) if A_log is None else A_log
        if dt_bias is None:
            dt_bias = q.new_zeros((HV,) if per_head else (HV, K), dtype=torch.float32)
    if initial_state is not None:
        initial_state = initial_state.to(torch.float32)
        if initial_state.stride(-1) != 1:
            initial_state = initial_state.contiguous()
    final = (torch.empty((N, HV, V, K) if v_first else (N, HV, K, V), dtype=torch.float32, device=q.device)
             if output_final_state else None)
    packed = cu_seqlens is not None
    shape = v.shape
    if packed:
        q, k, v, beta, g = q[0], k[0], v[0], beta[0], None if g is None else g[0]
        if cu_seqlens.dtype is not torch.int64 and cu_seqlens.dtype is not torch.int32:  # type: ignore
            cu_seqlens = cu_seqlens.long()  # type: ignore
        cu_seqlens = cu_seqlens.contiguous()  # type: ignore
    choices = (f"{'packed' if packed else 'padded'} {gate} {'per_head' if per_head else 'per_channel'} "
               f"{'logit' if sigmoid else 'value'} {times} {'l2' if l2 else 'as_is'} 1e-06 grouped exact "
               f"{NAMES[q.dtype]} {'VK' if v_first else 'KV'} -1")
    if _compiling():
        out = _prefill(q, k, v, g, beta, A_log=A_log, dt_bias=dt_bias, cu_seqlens=cu_seqlens,
                       initial=initial_state, final=final, choices=choices, scale=scale, lower_bound=lb)
    else:
        plan = plan_of(_context.generation(), choices, scale, lb, k.shape[-2], HV, K, V, q.dtype,
                       torch.float32 if g is None else g.dtype, beta.dtype)
        out = plan.prefill(q, k, v, g, beta, A_log=A_log, dt_bias=dt_bias, cu_seqlens=cu_seqlens,
                           initial=initial_state, final=final)
    if packed:
        out = out.reshape(shape)
    return out if out.dtype is given else out.to(given), final


def _layout(name: str, state_v_first: bool, ignored: dict[str, Any]) -> bool:
    """``state_v_first``, also by its older name; refuses what would change the result."""
    if "head_first" in ignored and ignored["head_first"]:
        raise NotImplementedError(f"{name}: head_first is not supported; inputs are [B,T,H,...]")
    if "transpose_state_layout" not in ignored:
        return state_v_first
    if state_v_first:
        raise _errors.RedeltaValueError(f"{name}: state_v_first and transpose_state_layout exclude each other")
    warnings.warn("transpose_state_layout is now called state_v_first", DeprecationWarning, stacklevel=3)
    return bool(ignored["transpose_state_layout"])


def _unsupported(name: str, **given: Any) -> None:
    for parameter, value in given.items():
        if value is not None and value is not False:
            raise NotImplementedError(f"{name}: {parameter} is not supported on a CPU")


def chunk_gated_delta_rule(
        q: Tensor, k: Tensor, v: Tensor, g: Optional[Tensor], beta: Tensor, scale: Optional[float] = None,
        initial_state: Optional[Tensor] = None, output_final_state: bool = False,
        use_qk_l2norm_in_kernel: bool = False, use_beta_sigmoid_in_kernel: bool = False,
        allow_neg_eigval: bool = False, state_v_first: bool = False, cu_seqlens: Optional[Tensor] = None,
        cu_seqlens_cpu: Optional[Tensor] = None, chunk_indices: Optional[Tensor] = None,
        cp_context: Any = None, *, use_gate_in_kernel: bool = False, A_log: Optional[Tensor] = None,
        dt_bias: Optional[Tensor] = None, **kwargs: Any) -> Tuple[Tensor, Optional[Tensor]]:
    """The gated delta rule over whole sequences; see the module for shapes and equation."""
    name = "chunk_gated_delta_rule"
    if cp_context is not None:
        _unsupported(name, cp_context=cp_context)
    v_first = _layout(name, state_v_first, kwargs) if kwargs else state_v_first
    return _gdn(name, q, k, v, g, None, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel,
                use_gate_in_kernel, A_log, dt_bias, use_beta_sigmoid_in_kernel, allow_neg_eigval, v_first,
                cu_seqlens)


def fused_recurrent_gated_delta_rule(
        q: Tensor, k: Tensor, v: Tensor, g: Optional[Tensor] = None, gk: Optional[Tensor] = None,
        gv: Optional[Tensor] = None, beta: Optional[Tensor] = None, scale: Optional[float] = None,
        initial_state: Optional[Tensor] = None, output_final_state: bool = False,
        use_qk_l2norm_in_kernel: bool = False, use_gate_in_kernel: bool = False,
        A_log: Optional[Tensor] = None, dt_bias: Optional[Tensor] = None,
        use_beta_sigmoid_in_kernel: bool = False, allow_neg_eigval: bool = False,
        state_v_first: bool = False, cu_seqlens: Optional[Tensor] = None,
        **kwargs: Any) -> Tuple[Tensor, Optional[Tensor]]:
    """The same, token by token: equal bits, meant for decoding. ``gk`` [B,T,HV,K] is a log decay per
    channel, added to ``g``."""
    name = "fused_recurrent_gated_delta_rule"
    if gv is not None:
        _unsupported(name, gv=gv)
    v_first = _layout(name, state_v_first, kwargs) if kwargs else state_v_first
    if beta is None:
        beta = q.new_ones(()).expand(v.shape[:3])
    return _gdn(name, q, k, v, g, gk, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel,
                use_gate_in_kernel, A_log, dt_bias, use_beta_sigmoid_in_kernel, allow_neg_eigval, v_first,
                cu_seqlens)


def _gdn(name: str, q: Tensor, k: Tensor, v: Tensor, g: Optional[Tensor], gk: Optional[Tensor],
         beta: Tensor, scale: Optional[float], initial_state: Optional[Tensor], output_final_state: bool,
         l2: bool, use_gate: bool, A_log: Optional[Tensor], dt_bias: Optional[Tensor], sigmoid: bool,
         neg: bool, v_first: bool, cu_seqlens: Optional[Tensor]) -> Tuple[Tensor, Optional[Tensor]]:
    gate, per_head = "log", True
    if use_gate:
        if A_log is None or g is None:
            raise _errors.RedeltaValueError(f"{name}: use_gate_in_kernel=True requires g and A_log")
        gate = "softplus"
    if gk is not None:
        if g is not None:
            g = _recurrence.activate(g.float(), gate, _vector(A_log, v.shape[2]), _vector(dt_bias, v.shape[2]), 0.0)
            gk = gk + g.unsqueeze(-1)  # type: ignore
        g, gate, per_head = gk, "log", False
    return _run(name, q, k, v, g, beta, gate=gate, per_head=per_head, A_log=A_log, dt_bias=dt_bias,
                lower_bound=None, scale=scale, initial_state=initial_state,
                output_final_state=output_final_state, l2=l2, sigmoid=sigmoid, neg=neg, v_first=v_first,
                cu_seqlens=cu_seqlens)


def chunk_kda(
        q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, scale: Optional[float] = None,
        initial_state: Optional[Tensor] = None, output_final_state: bool = False,
        use_qk_l2norm_in_kernel: bool = False, use_gate_in_kernel: bool = False,
        use_beta_sigmoid_in_kernel: bool = False, allow_neg_eigval: bool = False, safe_gate: bool = False,
        lower_bound: Optional[float] = None, disable_recompute: bool = False,
        return_intermediate_states: bool = False, state_v_first: bool = False,
        cu_seqlens: Optional[Tensor] = None, cu_seqlens_cpu: Optional[Tensor] = None, cp_context: Any = None,
        use_graph: bool = False, max_num_seqs: Optional[int] = None, *, A_log: Optional[Tensor] = None,
        dt_bias: Optional[Tensor] = None, **kwargs: Any) -> Tuple[Tensor, Optional[Tensor]]:
    """Kimi Delta Attention over whole sequences; see the module for shapes and equation."""
    name = "chunk_kda"
    if cp_context is not None or return_intermediate_states:
        _unsupported(name, cp_context=cp_context, return_intermediate_states=return_intermediate_states)
    v_first = _layout(name, state_v_first, kwargs) if kwargs else state_v_first
    if safe_gate and use_gate_in_kernel and not (lower_bound is not None and -5 <= lower_bound < 0):
        raise _errors.RedeltaValueError(f"{name}: safe_gate=True requires a lower_bound in [-5, 0), got "
                                        f"{_errors.shown(lower_bound)}")
    return _kda(name, q, k, v, g, beta, A_log, dt_bias, scale, initial_state, output_final_state,
                use_qk_l2norm_in_kernel, use_gate_in_kernel, use_beta_sigmoid_in_kernel, allow_neg_eigval,
                lower_bound, v_first, cu_seqlens)


def fused_recurrent_kda(
        q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, A_log: Optional[Tensor] = None,
        dt_bias: Optional[Tensor] = None, scale: Optional[float] = None,
        initial_state: Optional[Tensor] = None, output_final_state: bool = False,
        use_qk_l2norm_in_kernel: bool = False, use_gate_in_kernel: bool = False,
        use_beta_sigmoid_in_kernel: bool = False, allow_neg_eigval: bool = False,
        lower_bound: Optional[float] = None, state_v_first: bool = False,
        cu_seqlens: Optional[Tensor] = None, **kwargs: Any) -> Tuple[Tensor, Optional[Tensor]]:
    """The same, token by token: equal bits, meant for decoding."""
    name = "fused_recurrent_kda"
    v_first = _layout(name, state_v_first, kwargs) if kwargs else state_v_first
    return _kda(name, q, k, v, g, beta, A_log, dt_bias, scale, initial_state, output_final_state,
                use_qk_l2norm_in_kernel, use_gate_in_kernel, use_beta_sigmoid_in_kernel, allow_neg_eigval,
                lower_bound, v_first, cu_seqlens)


def _kda(name: str, q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, A_log: Optional[Tensor],
         dt_bias: Optional[Tensor], scale: Optional[float], initial_state: Optional[Tensor],
         output_final_state: bool, l2: bool, use_gate: bool, sigmoid: bool, neg: bool,
         lower_bound: Optional[float], v_first: bool, cu_seqlens: Optional[Tensor],
         ) -> Tuple[Tensor, Optional[Tensor]]:
    gate = "log"
    if use_gate:
        if A_log is None and lower_bound is None:
            raise _errors.RedeltaValueError(f"{name}: use_gate_in_kernel=True requires A_log or lower_bound")
        gate = "softplus" if lower_bound is None else "lower_bound"
    return _run(name, q, k, v, g, beta, gate=gate, per_head=False, A_log=A_log, dt_bias=dt_bias,
                lower_bound=lower_bound, scale=scale, initial_state=initial_state,
                output_final_state=output_final_state, l2=l2, sigmoid=sigmoid, neg=neg, v_first=v_first,
                cu_seqlens=cu_seqlens)
