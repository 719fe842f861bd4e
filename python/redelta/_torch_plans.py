"""Plans looked up by what a torch operator is given: a text of choices, and the tensors' sizes and types."""
from __future__ import annotations

import functools
from typing import Any, Optional

import torch

from . import _errors, core

WORDS = ("layout", "gate", "gate_axis", "beta", "beta_times", "qk_norm", "l2_eps", "head_map", "numerics",
          "out_dtype", "state_layout", "pad_slot")
NAMES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}


def describe(problem: core.Problem) -> str:
    """What the operators take as ``choices``: all of a problem but its sizes, limits, ``scale``,
    ``lower_bound`` and the element types of what goes in, as one line of text."""
    p = problem
    return (f"{p.layout} {p.gate} {p.gate_axis} {p.beta} {p.beta_times} {p.qk_norm} {p.l2_eps} {p.head_map} "
            f"{p.numerics} {p.out_dtype} {p.state_layout} {p.pad_slot}")


def _name(what: str, dtype: torch.dtype) -> Any:
    if dtype not in NAMES:
        raise _errors.RedeltaTypeError(f"{what}: element type {dtype} is not supported", 4)
    return NAMES[dtype]


@functools.lru_cache(maxsize=64)  # the least recently used one goes; a plan is a few hundred bytes
def plan_of(generation: int, choices: str, scale: Optional[float], lower_bound: float, Hk: int, Hv: int, K: int,
            V: int, qkv: torch.dtype, g: torch.dtype, beta: torch.dtype, state: torch.dtype = torch.float32,
            record: torch.dtype = torch.float32, decay: torch.dtype = torch.float32) -> core.Plan:
    """``generation``: plans belong to the instruction sets they were made with."""
    words = choices.split()
    if len(words) != len(WORDS):
        raise _errors.RedeltaValueError(f"choices: expected the text of redelta.torch.describe, got "
                                        f"{_errors.shown(choices)}")
    chosen: dict[str, Any] = dict(zip(WORDS, words))
    for name, kind in (("beta_times", int), ("l2_eps", float), ("pad_slot", int)):
        chosen[name] = kind(chosen[name])
    return core.Plan(core.Problem(
        Hk, Hv, K, V, scale=scale, lower_bound=lower_bound, qkv_dtype=_name("q", qkv), gate_dtype=_name("g", g),
        beta_dtype=_name("beta", beta), state_dtype=_name("state", state), record_dtype=_name("u", record),
        decay_dtype=_name("decay", decay), **chosen))
