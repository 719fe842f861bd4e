"""redelta: delta-rule attention on CPUs, with bits you can rely on.

The field's named operators on NumPy arrays, PyTorch CPU tensors and anything with DLPack::

    import redelta
    out, final_state = redelta.chunk_gated_delta_rule(query, key, value, beta, state, lengths, g, scale)

:mod:`redelta.operators` documents them; :class:`Problem`, :class:`Plan`, :class:`StatePool` and
:class:`StepLoop` are the verbs beneath (prefill, decode, verify, commit, materialize) with every choice
stated. :mod:`redelta.fla` has the functions of flash-linear-attention, ``redelta.transformers`` puts them
into models, ``redelta.torch`` has the operators for ``torch.compile`` (torch 2.4 or newer).

The package needs its C library: in the wheel, in ``build/`` of the source tree, or where the environment
variable ``REDELTA_LIBRARY`` points.
"""
from . import _lib
from ._context import get_num_threads, info, set_isa, set_num_threads
from ._errors import (Error, RedeltaMemoryError, RedeltaRuntimeError, RedeltaTypeError,
                      RedeltaValueError)
from .core import Plan, Problem, Records
from .loop import StepLoop
from .operators import (chunk_gated_delta_rule, commit_recurrent_kda_replayssm, flash_kda,
                        flash_kda_metadata, fused_recurrent_kda, fused_recurrent_kda_replayssm)
from .pool import StatePool

__version__ = _lib.lib.rd_version().decode()

__all__ = [
    "chunk_gated_delta_rule", "fused_recurrent_kda_replayssm", "commit_recurrent_kda_replayssm",
    "flash_kda", "flash_kda_metadata", "fused_recurrent_kda",
    "Problem", "Plan", "Records", "StatePool", "StepLoop",
    "info", "set_num_threads", "get_num_threads", "set_isa",
    "Error", "RedeltaTypeError", "RedeltaValueError", "RedeltaRuntimeError", "RedeltaMemoryError",
]
