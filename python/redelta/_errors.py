"""Exceptions: one class per Python kind, each with the C library's status beside its message."""
from __future__ import annotations

import operator
import reprlib

import numpy

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


_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60


def shown(value: object) -> str:
    """A value for an error message: numbers and short text as they are, arrays and containers by their
    kind alone. Nobody wants the contents of a tensor in a traceback or a log."""
    shape, kind = getattr(value, "shape", None), type(value).__name__
    if isinstance(shape, tuple) and not isinstance(value, numpy.generic):
        return f"an array of type {kind} and shape {tuple(shape)}"
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"
    if value is None or isinstance(value, (int, float, complex, str, bytes, numpy.generic)):
        return _short.repr(value)
    return f"an object of type {kind}"


def number(name: str, value: object) -> float:
    """A scalar argument as a float; text is not a number here."""
    if isinstance(value, (str, bytes, bytearray)):
        raise RedeltaTypeError(f"{name}: must be a number, got {shown(value)}")
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise RedeltaTypeError(f"{name}: must be a number, got {shown(value)}") from None
    except OverflowError:
        raise RedeltaValueError(f"{name}: must be a number that fits a float") from None


def integer(name: str, value: object, bits: int = 64) -> int:
    """An integer argument that C can hold; ctypes would cut it off without a word.

    The one conversion of this package: takes what has ``__index__`` and no dimensions (Python's and
    NumPy's integers, an integer tensor of rank 0), and neither truth values, fractions nor text.
    """
    try:
        if (isinstance(value, bool) or getattr(value, "shape", ()) != ()
                or str(getattr(value, "dtype", "")) in ("bool", "torch.bool")):
            raise TypeError
        found = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise RedeltaTypeError(f"{name}: must be an integer, got {shown(value)}") from None
    if not -(1 << bits - 1) <= found < 1 << bits - 1:
        raise RedeltaValueError(f"{name}: {shown(found)} does not fit", 26)
    return found


def integers(name: str, values: object, bits: int = 64) -> list[int]:
    """A sequence of :func:`integer` arguments."""
    if isinstance(values, (str, bytes)):
        raise RedeltaTypeError(f"{name}: must be a sequence of integers, got {shown(values)}")
    try:
        items = list(values)  # type: ignore[call-overload]
    except TypeError:
        raise RedeltaTypeError(f"{name}: must be a sequence of integers, got {shown(values)}") from None
    return [integer(f"{name}[{i}]", item, bits) for i, item in enumerate(items)]


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
