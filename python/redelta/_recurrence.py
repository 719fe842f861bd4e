"""The gated delta rule in plain torch, token by token: slow, and differentiable.

What :mod:`redelta.fla` runs when a derivative is asked for. Everything is computed in float32, in float64
when the inputs have it.
"""
from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor


def activate(g: Optional[Tensor], gate: str, A_log: Optional[Tensor], dt_bias: Optional[Tensor],
             lower_bound: float) -> Optional[Tensor]:
    """The logarithm of the decay: [.., HV] or [.., HV, K]."""
    if g is None or gate == "log":
        return g
    if dt_bias is not None:
        g = g + dt_bias
    if A_log is None:
        return lower_bound * torch.sigmoid(g)
    rate = A_log.exp() if g.dim() == 3 else A_log.exp().unsqueeze(-1)
    if gate == "lower_bound":
        return lower_bound * torch.sigmoid(rate * g)
    return -rate * torch.nn.functional.softplus(g)


def _sequence(q: Tensor, k: Tensor, v: Tensor, g: Optional[Tensor], beta: Tensor,
              state: Tensor) -> tuple[Tensor, Tensor]:
    """S <- S e^g;  S <- S + k (beta (v - S'k))';  o = S'q. State [N,HV,K,V]."""
    outputs = []
    for t in range(q.shape[1]):
        if g is not None:
            decay = g[:, t].exp()
            state = state * (decay[..., None, None] if g.dim() == 3 else decay[..., None])
        u = beta[:, t, :, None] * (v[:, t] - torch.einsum("nhkv,nhk->nhv", state, k[:, t]))
        state = state + k[:, t].unsqueeze(-1) * u.unsqueeze(-2)
        outputs.append(torch.einsum("nhkv,nhk->nhv", state, q[:, t]))
    return (torch.stack(outputs, 1) if outputs else v[:, :0]), state


def run(q: Tensor, k: Tensor, v: Tensor, g: Optional[Tensor], beta: Tensor, *, gate: str,
        A_log: Optional[Tensor], dt_bias: Optional[Tensor], lower_bound: float, scale: Optional[float],
        initial_state: Optional[Tensor], l2: bool, sigmoid: bool, times: int, v_first: bool,
        cu_seqlens: Optional[Tensor]) -> tuple[Tensor, Tensor]:
    """Outputs and final states of :mod:`redelta.fla`'s arguments (see there), in the computing type."""
    wide = torch.float64 if q.dtype is torch.float64 else torch.float32

    def cast(x: Optional[Tensor]) -> Optional[Tensor]:
        return None if x is None else x.to(wide)

    q, k, v, beta = q.to(wide), k.to(wide), v.to(wide), beta.to(wide)
    log_decay = activate(cast(g), gate, cast(A_log), cast(dt_bias), lower_bound)
    if l2:
        q, k = (x / torch.sqrt((x * x).sum(-1, keepdim=True) + 1e-6) for x in (q, k))
    if sigmoid:
        beta = times * torch.sigmoid(beta)
    HV, V, K = v.shape[2], v.shape[3], q.shape[3]
    q = q * (K ** -0.5 if scale is None else scale)
    q, k = (x.repeat_interleave(HV // x.shape[2], 2) for x in (q, k))
    ends = [0, q.shape[1]] if cu_seqlens is None else cu_seqlens.tolist()
    N = q.shape[0] if cu_seqlens is None else len(ends) - 1
    state = q.new_zeros(N, HV, K, V) if initial_state is None else initial_state.to(wide)
    if v_first and initial_state is not None:
        state = state.transpose(-1, -2)
    if cu_seqlens is None:
        out, state = _sequence(q, k, v, log_decay, beta, state)
    else:
        parts = [_sequence(*(None if x is None else x[:, a:b] for x in (q, k, v, log_decay, beta)),  # type: ignore
                           state[n:n + 1]) for n, (a, b) in enumerate(zip(ends, ends[1:]))]
        rest = v.new_zeros(1, q.shape[1] - ends[-1], HV, V)
        out = torch.cat([part[0] for part in parts] + [rest], 1)
        state = torch.cat([part[1] for part in parts]) if parts else state
    return out, state.transpose(-1, -2) if v_first else state
