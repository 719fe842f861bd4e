"""Types of the public interface: arrays, and the names that a choice may have."""
from __future__ import annotations

from typing import Any, Literal, Optional, Protocol, TypedDict, TypeVar, Union

import numpy as np


class DLPackArray(Protocol):
    """An array that lends its memory through DLPack: PyTorch's and many others."""

    def __dlpack__(self) -> object:
        """A capsule with the array's address, shape and strides."""

    def __dlpack_device__(self) -> tuple[int, int]:
        """Where the memory is; it must be the CPU's."""


class InterfaceArray(Protocol):
    """An array that describes its memory as NumPy does."""

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Address, shape, strides and type."""


#: What goes in: a NumPy array, a torch CPU tensor, or any object with ``__dlpack__`` or
#: ``__array_interface__``.
Array = Union["np.ndarray[Any, Any]", DLPackArray, InterfaceArray]

#: An output has the kind of the input it resembles.
AnyArray = TypeVar("AnyArray", bound=Array)
StateArray = TypeVar("StateArray", bound=Array)

Layout = Literal["padded", "packed"]
Gate = Literal["none", "log", "lower_bound", "softplus", "decay"]
GateAxis = Literal["per_head", "per_channel"]
Beta = Literal["value", "logit"]
Norm = Literal["as_is", "l2"]
HeadMap = Literal["grouped", "tiled"]
Numerics = Literal["exact", "fast"]
StateLayout = Literal["VK", "KV"]
FloatType = Literal["float32", "float16", "bfloat16"]
RecordType = Literal["float32", "float16"]
LayoutQKV = Literal["BSND", "BNSD", "TND"]
Isa = Literal["scalar", "scalar_fma", "avx2", "avx512", "neon", "amx"]


class PlanInfo(TypedDict):
    """What :meth:`redelta.Plan.info` tells."""

    scratch_bytes: int
    threads: int
    row_block: int
    work_items: int
    rows_kernel: str
    commit_kernel: str
    prep_kernel: str
    fast_prefill_kernel: str
    fast_verify_kernel: str
    record_bytes_per_token: int
    snapshot_bytes_per_token: int


class Info(TypedDict):
    """What :func:`redelta.info` tells."""

    version: str
    library: str
    threads: int
    isa_usable: list[str]
    isa_built: list[str]
    isa_emulated: list[str]
    kernels: dict[str, tuple[Optional[str], Optional[str]]]
    scratch_bytes: int
