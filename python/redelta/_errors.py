"""Exceptions: one class per Python kind, each with the C library's status beside its message."""
from __future__ import annotations

from . import _lib

__all__ = ["Error", "RedeltaTypeError", "RedeltaValueError", "RedeltaRuntimeError",
           "RedeltaMemoryError"]


class Error(Exception):
    """Base of everything this package raises on purpose.

    ``status`` is the C library's code and ``status_name`` its name (``"RD_E_SHAPE"``); both are ``None``
    when the argument was refused before it could be described to C. Nothing was written in any case,
    except after ``RD_E_EXECUTOR``.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.status_name = None if status is None else _lib.status_name(status)


class RedeltaTypeError(Error, TypeError):
    """An argument of the wrong kind: not an array, an element type not accepted, a missing tensor."""


class RedeltaValueError(Error, ValueError):
    """An argument of the right kind with a value that the operator refuses."""


class RedeltaRuntimeError(Error, RuntimeError):
    """The machine, not the arguments: busy context, failed known-answer check, threads refused."""


class RedeltaMemoryError(Error, MemoryError):
    """The allocator returned nothing."""


_NULL, _DTYPE, _NOMEM = 1, 4, 27
_RUNTIME = {28, 29, 30, 31, 34}  # BUSY, ARITHMETIC, EXECUTOR, ISA, SYSTEM


def from_status(status: int, message: str) -> Error:
    """The exception for a failed call."""
    message = message or _lib.status_name(status)
    if status in (_NULL, _DTYPE):
        return RedeltaTypeError(message, status)
    if status == _NOMEM:
        return RedeltaMemoryError(message, status)
    if status in _RUNTIME:
        return RedeltaRuntimeError(message, status)
    return RedeltaValueError(message, status)
