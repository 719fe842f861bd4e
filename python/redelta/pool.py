"""Pools of recurrent states: one slot per sequence."""
from __future__ import annotations

import ctypes
import weakref
from ctypes import byref, c_size_t
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _array, _context, _errors, _lib
from ._types import FloatType, StateLayout
from .core import Problem, choice

if TYPE_CHECKING:
    import torch

__all__ = ["StatePool"]


def _free(memory: _lib.Tensor) -> None:
    _context.current().call(_lib.lib.rd_pool_free, byref(memory))


class StatePool:
    """``slots`` states [Hv,V,K] ("VK") or [Hv,K,V] ("KV"), zeroed, 64-byte aligned, huge pages advised.

    Accepted wherever a pool is (as are plain arrays [slots,Hv,V,K]). The memory is freed when the pool
    and every array made from it are gone. A copy, deep copy or pickle has memory of its own and the
    same bytes in every slot.

    Raises ``ValueError`` for sizes out of range, ``MemoryError`` when there is no memory.
    """

    def __init__(self, slots: int, Hv: int, V: int, K: int, *, layout: StateLayout = "VK",
                 dtype: FloatType = "float32") -> None:
        self._layout, code = choice("state_layout", layout), choice("state_dtype", dtype)
        self.layout, self.dtype = layout, dtype
        self._tensor = _lib.Tensor()
        slots, Hv, V, K = (_errors.integer(name, value) for name, value in
                           (("slots", slots), ("Hv", Hv), ("V", V), ("K", K)))
        _context.current().call(_lib.lib.rd_pool_alloc, slots, Hv, V, K, self._layout, code,
                                byref(self._tensor))
        # Freed with a copy of the view: the pool's own structure may be gone by then.
        memory = _lib.Tensor.from_buffer_copy(self._tensor)
        self._memory = _Memory(memory)
        tensor = self._tensor
        self.shape = tuple(tensor.shape[:tensor.rank])
        self._strides = tuple(tensor.stride[:tensor.rank])
        self._view = (tensor.data or 0, False, (code, self.shape, self._strides), self._memory)

    @classmethod
    def for_problem(cls, problem: Problem, slots: int) -> "StatePool":
        """A pool of ``slots`` states as ``problem`` describes them."""
        return cls(slots, problem.Hv, problem.V, problem.K, layout=problem.state_layout,
                   dtype=problem.state_dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"StatePool(shape={self.shape}, layout={self.layout!r}, dtype={self.dtype!r})"

    # ---------------------------------------------------------------- copies ----------------------

    def _twin(self) -> "StatePool":
        slots, Hv, rows, columns = self.shape
        V, K = (rows, columns) if self.layout == "VK" else (columns, rows)
        return StatePool(slots, Hv, V, K, layout=self.layout, dtype=self.dtype)

    def __copy__(self) -> "StatePool":
        self._reading()
        made = self._twin()
        ctypes.memmove(made._view[0], self._view[0],  # the same strides, as the sizes are the same
                       self.shape[0] * self._strides[0] * _lib.DTYPE_SIZES[self._view[2][0]])
        return made

    def __deepcopy__(self, memo: dict) -> "StatePool":
        return self.__copy__()

    def __reduce__(self) -> tuple:
        slots, Hv, rows, columns = self.shape
        V, K = (rows, columns) if self.layout == "VK" else (columns, rows)
        saved = [self.save(slot) for slot in range(slots)]
        return _unpickled, (slots, Hv, V, K, self.layout, self.dtype, saved)

    # ---------------------------------------------------------------- as arrays -------------------

    def numpy(self) -> "np.ndarray[Any, Any]":
        """The pool as a NumPy array over the same memory (bfloat16 needs ml_dtypes)."""
        self._reading()
        dtype = _array.numpy_dtype(self.dtype)
        size = dtype.itemsize
        strides = [stride * size for stride in self._strides]
        count = 1 + sum((n - 1) * s for n, s in zip(self.shape, strides)) // size if all(self.shape) else 0
        if count == 0:
            return np.empty(self.shape, dtype)
        buffer: Any = (ctypes.c_char * (count * size)).from_address(self._view[0])
        buffer._owner = self._memory
        return np.ndarray(self.shape, dtype, buffer, strides=strides)

    def torch(self) -> "torch.Tensor":
        """The pool as a torch tensor over the same memory."""
        import torch

        return torch.from_dlpack(self)

    def __dlpack__(self, **options: Any) -> Any:
        self._reading()
        return _array.Lent(self._memory, self._view[0], self._view[2][0], self.shape,
                           self._strides).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    # ---------------------------------------------------------------- slots -----------------------

    def _reading(self) -> None:
        """Called before slots are read; for pools that have something to finish first."""

    def _writing(self, slot: int | None) -> None:
        """Called before a slot (None: any of them) is written."""

    def _call(self, name: str, *arguments: Any) -> None:
        _context.current().call(getattr(_lib.lib, name), byref(self._tensor), *arguments)

    def reset(self, slot: int) -> None:
        """Zeroes a slot, for a new sequence. ``ValueError`` when it is out of range."""
        slot = _errors.integer("slot", slot)
        self._writing(slot)
        self._call("rd_pool_reset", slot)

    def copy(self, source: int, to: int) -> None:
        """Copies a slot's bytes into another: forks a sequence."""
        source, to = _errors.integer("source", source), _errors.integer("to", to)
        self._writing(to)
        self._call("rd_pool_copy", source, to)

    def convert_to(self, other: "StatePool") -> None:
        """Writes all slots into ``other``, which may have another layout and element type (rounded to
        nearest even). Same slot count and sizes; ``ValueError`` otherwise."""
        if not isinstance(other, StatePool):
            raise _errors.RedeltaTypeError(f"other: expected redelta.StatePool, got {type(other).__name__}")
        self._reading()
        other._writing(None)
        self._call("rd_pool_convert", self._layout, byref(other._tensor), other._layout)

    def save(self, slot: int) -> bytes:
        """One slot as bytes: a versioned header with checksum, then the packed state."""
        slot, size = _errors.integer("slot", slot), c_size_t()
        self._reading()
        self._call("rd_pool_save_size", byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._call("rd_pool_save", self._layout, slot, buffer, size)
        return buffer.raw

    def load(self, slot: int, data: bytes) -> None:
        """Restores :meth:`save`'s bytes into a slot. ``ValueError`` for another version, shape or type,
        or a wrong checksum; the slot then keeps its bytes."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise _errors.RedeltaTypeError(f"data: expected bytes, got {type(data).__name__}")
        slot, data = _errors.integer("slot", slot), bytes(data)
        self._writing(slot)
        self._call("rd_pool_load", self._layout, slot, data, len(data))


def _unpickled(slots: int, Hv: int, V: int, K: int, layout: StateLayout, dtype: FloatType,
               saved: list[bytes]) -> StatePool:
    pool = StatePool(slots, Hv, V, K, layout=layout, dtype=dtype)
    for slot, data in enumerate(saved):
        pool.load(slot, data)
    return pool


class _Memory:
    """Owner of a pool's memory; arrays and DLPack loans hold on to it."""

    __slots__ = ("__weakref__",)

    def __init__(self, tensor: _lib.Tensor) -> None:
        weakref.finalize(self, _free, tensor).atexit = False  # the process's end frees it anyway


_array._viewers[StatePool] = lambda pool: pool._view
