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


def number(name: str, value: object) -> float:
    """A scalar argument as a float; text is not a number here."""
    if isinstance(value, (str, bytes, bytearray)):
        raise RedeltaTypeError(f"{name}: must be a number, got {value!r}")
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise RedeltaTypeError(f"{name}: must be a number, got {value!r}") from None
    except OverflowError:
        raise RedeltaValueError(f"{name}: must be a number that fits a float") from None


def integer(name: str, value: object, bits: int = 64) -> int:
    """An integer argument that C can hold; ctypes would cut it off without a word."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise RedeltaTypeError(f"{name}: must be an integer, got {value!r}")
    found = value.__index__()
    if not -(1 << bits - 1) <= found < 1 << bits - 1:
        raise RedeltaValueError(f"{name}: {found} does not fit", 26)
    return found


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
