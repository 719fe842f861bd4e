"""Hugging Face models with gated delta rule or KDA layers, on redelta.

On a CPU those layers run loops of plain torch. :func:`patch` puts :mod:`redelta.fla` in their place, in every
model module of the list below that is imported or will be::

    import redelta.transformers
    redelta.transformers.patch()             # until unpatch()
    with redelta.transformers.patch():       # or for a block
        model.generate(...)

What is replaced are global names of the modules ``transformers.models.NAME.modeling_NAME``, which the layers
look up in every call: models that exist already follow. The convolution before the rule is replaced for packed
sequences alone (``cu_seq_lens_q`` or ``seq_idx``), which transformers' own torch code cannot keep apart; all
other calls of it go where they went.

=============================================================  ===============================================
qwen3_next, qwen3_5, qwen3_5_moe, qwen4_exp, olmo_hybrid,      torch_chunk_gated_delta_rule,
lara_mini                                                      torch_recurrent_gated_delta_rule
kimi_linear, bailing_hybrid, glm5_next                         chunk_kimi_delta_attention,
                                                               recurrent_kimi_delta_attention
all                                                            causal_conv1d_fn
=============================================================  ===============================================

Where a derivative is asked for (gradients are enabled, as they are unless ``torch.no_grad()`` or
``torch.inference_mode()`` says otherwise) the model's own torch code runs, and a warning says so once; of packed
sequences, the recurrence of redelta.fla. ``model.generate`` needs nothing: it disables gradients itself.
"""
from __future__ import annotations

import importlib.abc
import importlib.machinery
import inspect
import sys
import threading
from dataclasses import dataclass
from types import ModuleType, TracebackType
from typing import Any, Callable, Optional, Sequence

import torch
from torch import Tensor

from . import fla

__all__ = ["patch", "unpatch", "status", "Status", "Patch", "MODELS"]

_GDN = ("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule")
_KDA = ("chunk_kimi_delta_attention", "recurrent_kimi_delta_attention")
_CONV = "causal_conv1d_fn"

#: Model -> the names that are replaced in its module.
MODELS: dict[str, tuple[str, ...]] = {
    **{name: (*_GDN, _CONV) for name in ("qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen4_exp", "olmo_hybrid",
                                         "lara_mini")},
    **{name: (*_KDA, _CONV) for name in ("kimi_linear", "bailing_hybrid", "glm5_next")},
}
_MODULES = {f"transformers.models.{name}.modeling_{name}": name for name in MODELS}

_FLA = {"torch_chunk_gated_delta_rule": fla.chunk_gated_delta_rule,
        "torch_recurrent_gated_delta_rule": fla.fused_recurrent_gated_delta_rule,
        "chunk_kimi_delta_attention": fla.chunk_kda,
        "recurrent_kimi_delta_attention": fla.fused_recurrent_kda}

# ---------------------------------------------------------------- replacements --------------------


def _rule(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """What stands for a delta rule: the keywords that the models pass, packed lengths under either name."""
    run, about = _FLA[name], f"redelta.transformers, {name}"
    plain = inspect.unwrap(original)  # below the choice between torch and another package

    def delta_rule(query: Tensor, key: Tensor, value: Tensor, g: Optional[Tensor] = None,
                   beta: Optional[Tensor] = None, *, initial_state: Optional[Tensor] = None,
                   output_final_state: bool = False, use_qk_l2norm_in_kernel: bool = False,
                   cu_seqlens: Optional[Tensor] = None, cu_seq_lens_q: Optional[Tensor] = None,
                   **kwargs: Any) -> Any:
        packed = cu_seq_lens_q if cu_seqlens is None else cu_seqlens
        if packed is None and fla.wants_grad(query, key, value, g, beta, initial_state):
            fla.warn_once(about, 3)
            return plain(query, key, value, g=g, beta=beta, initial_state=initial_state,
                         output_final_state=output_final_state, use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel)
        return run(query, key, value, g=g, beta=beta, initial_state=initial_state,  # type: ignore[operator]
                   output_final_state=output_final_state, use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
                   cu_seqlens=packed)

    return delta_rule


def _convolution(original: Callable[..., Any]) -> Callable[..., Any]:
    """A causal convolution that looks at no token of another sequence; [B,C,T], weight [C,taps]."""

    def causal_conv1d_fn(hidden_states: Tensor, weight: Tensor, bias: Optional[Tensor] = None,
                         activation: Optional[str] = None, **kwargs: Any) -> Any:
        ends, ids = kwargs.get("cu_seqlens"), kwargs.get("seq_idx")
        if ends is None:
            ends = kwargs.get("cu_seq_lens_q")
        if ends is None and ids is None:
            return original(hidden_states, weight, bias, activation=activation, **kwargs)
        x, length = hidden_states.to(weight.dtype), hidden_states.shape[-1]
        if ids is None:
            places = torch.arange(length, device=x.device, dtype=ends.dtype)
            ids = torch.searchsorted(ends[1:].contiguous(), places, right=True).unsqueeze(0)
        out = x * weight[:, -1:]
        for back in range(1, min(weight.shape[-1], length)):
            same = (ids[:, back:] == ids[:, :-back]).unsqueeze(1)
            out = out + torch.nn.functional.pad(
                (x[..., :-back] * weight[:, -1 - back, None]).masked_fill(~same, 0), (back, 0))
        if bias is not None:
            out = out + bias[:, None]
        if activation in ("silu", "swish"):
            out = torch.nn.functional.silu(out)
        elif activation is not None:
            raise NotImplementedError(f"causal_conv1d_fn: activation {activation!r} with packed sequences")
        return out.to(hidden_states.dtype)

    return causal_conv1d_fn


# ---------------------------------------------------------------- patching ------------------------

_lock = threading.RLock()
_originals: dict[tuple[str, str], tuple[Any, Any]] = {}  # (module, name) -> (original, replacement)


def _apply(module: ModuleType) -> None:
    with _lock:
        if _finder not in sys.meta_path:  # unpatched while the module was being imported
            return
        for name in MODELS[_MODULES[module.__name__]]:
            original = getattr(module, name, None)
            known = _originals.get((module.__name__, name))
            if original is None or (known is not None and original is known[1]):
                continue
            made = _convolution(original) if name == _CONV else _rule(name, original)
            _originals[module.__name__, name] = original, made
            setattr(module, name, made)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds what the others find, and has the module patched once it is executed."""

    def find_spec(self, fullname: str, path: Optional[Sequence[str]],
                  target: Optional[ModuleType] = None) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname not in _MODULES:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: Any = None if find is None else find(fullname, path, target)
            if spec is not None:
                execute = spec.loader.exec_module

                def exec_module(module: ModuleType) -> None:
                    execute(module)
                    _apply(module)

                spec.loader.exec_module = exec_module
                return spec  # type: ignore[no-any-return]
        return None


_finder = _Finder()


class Patch:
    """What :func:`patch` returns: leaving its block undoes it, unless it was in force already."""

    def __init__(self, mine: bool) -> None:
        self._mine = mine

    def __enter__(self) -> "Patch":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if self._mine:
            unpatch()

    def __repr__(self) -> str:
        return f"Patch({status()})"


def patch() -> Patch:
    """Lets the models above run on redelta, from their next call on; see the module. Doing it again changes
    nothing. transformers need not be imported, nor installed."""
    with _lock:
        mine = _finder not in sys.meta_path
        if mine:
            sys.meta_path.insert(0, _finder)
        for module in _MODULES:
            if module in sys.modules:
                _apply(sys.modules[module])
        return Patch(mine)


def unpatch() -> None:
    """Puts back what :func:`patch` replaced. A name that somebody else has replaced since stays theirs."""
    with _lock:
        if _finder in sys.meta_path:
            sys.meta_path.remove(_finder)
        for (module, name), (original, made) in _originals.items():
            found = sys.modules.get(module)
            if found is not None and getattr(found, name, None) is made:
                setattr(found, name, original)
        _originals.clear()


@dataclass(frozen=True)
class Status:
    """``active``: patched or not. ``patched``: model -> names that run on redelta now. ``waiting``: models
    whose modules are not imported yet. ``missing``: model -> names that its module does not have (another
    version of transformers) or that somebody else has replaced since."""

    active: bool
    patched: dict[str, tuple[str, ...]]
    waiting: tuple[str, ...]
    missing: dict[str, tuple[str, ...]]

    def __str__(self) -> str:
        if not self.active:
            return "not patched"
        parts = [f"{model}: {', '.join(names)}" for model, names in self.patched.items()]
        parts += [f"{model} lacks {', '.join(names)}" for model, names in self.missing.items()]
        return "; ".join([*parts, f"waiting for {', '.join(self.waiting)}" if self.waiting else "none waiting"])


def status() -> Status:
    """What is patched."""
    with _lock:
        active = _finder in sys.meta_path
        patched, missing, waiting = {}, {}, []
        for module, model in _MODULES.items():
            found = sys.modules.get(module)
            if found is None:
                waiting.append(model)
                continue
            mine = tuple(name for name in MODELS[model] if (module, name) in _originals
                         and getattr(found, name, None) is _originals[module, name][1])
            if mine:
                patched[model] = mine
            if active and len(mine) < len(MODELS[model]):
                missing[model] = tuple(name for name in MODELS[model] if name not in mine)
        return Status(active, patched, tuple(waiting) if active else (), missing)
