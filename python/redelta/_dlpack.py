"""DLPack through ctypes: reading other libraries' arrays, and lending memory of our own.

Reading never takes the tensor over: the producer's capsule is kept for the length of one call and then
dropped unconsumed, so the producer's own destructor frees it - nothing to leak, nothing used after its
end. Lending follows the protocol: the consumer calls our deleter when it is done.
"""
from __future__ import annotations

import ctypes
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char_p, c_int32, c_int64, c_uint8, c_uint16,
                    c_uint32, c_uint64, c_void_p, cast, py_object, pythonapi)
from typing import Any

from . import _errors, _lib

_CPU, _CUDA_HOST = 1, 3
_INT, _FLOAT, _BFLOAT = 0, 2, 4
_READ_ONLY = 1
_CODES = {(_FLOAT, 32): _lib.F32, (_FLOAT, 16): _lib.F16, (_BFLOAT, 16): _lib.BF16,
          (_INT, 32): _lib.I32, (_INT, 64): _lib.I64}
_TYPES = {code: pair for pair, code in _CODES.items()}


class _DLTensor(Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class _Managed(Structure):
    _fields_ = [("tensor", _DLTensor), ("manager", c_void_p), ("deleter", c_void_p)]


class _Versioned(Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("manager", c_void_p), ("deleter", c_void_p),
                ("flags", c_uint64), ("tensor", _DLTensor)]


_capsule_name = pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = c_char_p, [py_object]
_capsule_pointer = pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = c_void_p, [py_object, c_char_p]
_capsule_new = pythonapi.PyCapsule_New
_capsule_new.restype, _capsule_new.argtypes = py_object, [c_void_p, c_char_p, c_void_p]


def read(array: Any) -> tuple[int, bool, tuple, Any]:
    """``(address, read-only, (code, shape, element strides), owner)`` of an object with ``__dlpack__``.

    The memory is valid while ``owner`` lives.
    """
    device = array.__dlpack_device__()
    if int(device[0]) not in (_CPU, _CUDA_HOST):
        raise _errors.RedeltaValueError(f"array is on DLPack device {tuple(map(int, device))}, "
                                        "expected CPU memory")
    try:
        capsule = array.__dlpack__(max_version=(1, 0))
    except TypeError:  # a producer from before version 1
        capsule = array.__dlpack__()
    name = _capsule_name(capsule)
    if name == b"dltensor":
        tensor = cast(_capsule_pointer(capsule, name), POINTER(_Managed)).contents.tensor
        read_only = False
    elif name == b"dltensor_versioned":
        managed = cast(_capsule_pointer(capsule, name), POINTER(_Versioned)).contents
        if managed.major != 1:
            raise _errors.RedeltaTypeError(f"DLPack major version {managed.major} is not supported")
        tensor, read_only = managed.tensor, bool(managed.flags & _READ_ONLY)
    else:
        raise _errors.RedeltaTypeError(f"__dlpack__ returned a capsule called {name!r}")
    code = _CODES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    if code is None:
        raise _errors.RedeltaTypeError(f"DLPack type (code {tensor.code}, {tensor.bits} bits, "
                                       f"{tensor.lanes} lanes) is not supported")
    strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else None
    return (tensor.data or 0) + tensor.byte_offset, read_only, (code, shape, strides), capsule


class _Loan:
    """What a consumer holds of us: the structure, its arrays, and the owner of the memory."""

    def __init__(self, owner: Any, address: int, code: int, shape: tuple, strides: tuple) -> None:
        rank = len(shape)
        self.owner = owner
        self.shape, self.strides = (c_int64 * rank)(*shape), (c_int64 * rank)(*strides)
        self.managed = _Managed()
        tensor = self.managed.tensor
        tensor.data, tensor.device_type, tensor.ndim, tensor.lanes = address, _CPU, rank, 1
        tensor.code, tensor.bits = _TYPES[code]
        tensor.shape = cast(self.shape, POINTER(c_int64))
        tensor.strides = cast(self.strides, POINTER(c_int64))
        self.managed.deleter = cast(_release, c_void_p).value


_loans: dict[int, _Loan] = {}  # address of the managed structure -> what it keeps alive


@CFUNCTYPE(None, c_void_p)
def _release(managed: int) -> None:
    _loans.pop(managed, None)


@CFUNCTYPE(None, c_void_p)
def _drop(capsule: int) -> None:
    # A capsule that nobody consumed still has its first name; a consumer renames it.
    valid, pointer = _raw_is_valid(capsule, b"dltensor"), None
    if valid:
        pointer = _raw_pointer(capsule, b"dltensor")
        _loans.pop(pointer, None)


# In a destructor the capsule's reference count is zero already: only its bare address may be used.
_raw_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", pythonapi))
_raw_pointer = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", pythonapi))
_DROP = cast(_drop, c_void_p)


def lend(owner: Any, address: int, code: int, shape: tuple, strides: tuple) -> Any:
    """A ``dltensor`` capsule over ``address``; ``owner`` lives until the consumer is done with it."""
    loan = _Loan(owner, address, code, shape, strides)
    pointer = ctypes.addressof(loan.managed)
    _loans[pointer] = loan
    return _capsule_new(pointer, b"dltensor", _DROP)


def loans() -> int:
    """How many tensors are lent now (for tests of lifetimes)."""
    return len(_loans)
