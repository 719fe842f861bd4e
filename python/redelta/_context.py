"""One C context per Python thread, made on first use and made anew when a setting changes.

A context serves one call at a time, so threads never share one: concurrent calls run side by side, each
on its own context (and its own built-in pool of threads). Settings are process-wide; every thread picks
up a change with its next call. After ``fork()`` the C library recreates its pool in the child.
"""
from __future__ import annotations

import threading
from ctypes import byref, c_void_p, sizeof
from typing import Any

from . import _errors, _lib

_settings = {"threads": 0, "isa_mask": 0}
_generation = 0  # grows with every change of _settings


class Context:
    """A C context, its generation, and the thread's call frames."""

    __slots__ = ("handle", "generation", "frames", "_destroy")

    def __init__(self) -> None:
        self._destroy = _lib.lib.rd_context_destroy  # still there when modules are torn down
        self.handle: int | None = None
        self.generation = _generation
        self.frames: dict[Any, Any] = {}
        options = _lib.ContextOptions()
        _lib.lib.rd_context_options_init(byref(options))
        options.threads, options.isa_mask = _settings["threads"], _settings["isa_mask"]
        out = c_void_p()
        status = _lib.lib.rd_context_create(byref(options), byref(out))
        if status:
            raise _errors.from_status(
                status, f"{_lib.status_name(status)}: a context with threads={options.threads}, "
                        f"isa_mask={options.isa_mask} could not be made")
        self.handle = out.value

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self._destroy(self.handle)
            self.handle = None

    def check(self, status: int) -> None:
        """Raises the exception of a failed call on this context."""
        if status:
            text = _lib.lib.rd_last_error(self.handle).decode(errors="replace")
            raise _errors.from_status(status, text)


class _Local(threading.local):
    context: Context | None = None


_local = _Local()


def current() -> Context:
    """This thread's context."""
    context = _local.context
    if context is None or context.generation != _generation:
        context = _local.context = Context()
    return context


def _change(**settings: int) -> None:
    """Applies settings after proving, with a context of their own, that C accepts them."""
    global _generation
    before = dict(_settings)
    _settings.update(settings)
    try:
        Context()
    except Exception:
        _settings.update(before)
        raise
    _generation += 1


def set_num_threads(threads: int | None) -> None:
    """Sets how many threads each call may use, for all Python threads from their next call on.

    ``None`` or 0 means the CPUs this process may use (the default). The results never depend on it:
    every operator gives the same bits for every thread count.

    Raises ``TypeError`` for a non-integer, ``ValueError`` for a negative count or more than 1024.
    """
    if threads is None:
        threads = 0
    if isinstance(threads, bool) or not hasattr(threads, "__index__"):
        raise _errors.RedeltaTypeError(f"threads must be an integer or None, got {threads!r}")
    threads = threads.__index__()
    if not 0 <= threads <= 1024:
        raise _errors.RedeltaValueError(f"threads must be in 0..1024, got {threads}")
    _change(threads=threads)


def get_num_threads() -> int:
    """How many threads a call from this Python thread uses."""
    return _lib.lib.rd_context_threads(current().handle)


def set_isa(*names: str) -> None:
    """Restricts the instruction sets: any of ``"scalar"``, ``"scalar_fma"``, ``"avx2"``, ``"avx512"``,
    ``"neon"``. No names lift the restriction. EXACT results have the same bits for all of them.

    Plans belong to the instruction sets they were made with; make them anew after a change. Raises
    ``ValueError`` for an unknown name and ``RuntimeError`` for one this build or machine cannot run.
    """
    mask = 0
    for name in names:
        if name not in _lib.ISA_BITS:
            raise _errors.RedeltaValueError(
                f"unknown instruction set {name!r}; known: {', '.join(_lib.ISA_BITS)}")
        mask |= _lib.ISA_BITS[name]
    _change(isa_mask=mask)


def _isa_names(bits: int) -> list[str]:
    return [name for name, bit in _lib.ISA_BITS.items() if bits & bit]


def info() -> dict[str, Any]:
    """What runs here: library version and path, threads, instruction sets, the chosen kernels.

    Keys: ``version``, ``library``, ``threads``, ``isa_usable`` and ``isa_built`` (lists of names),
    ``kernels`` (slot -> ``(kernel, instruction set)``, ``("exact", None)`` where FAST has none of its
    own), ``scratch_bytes`` (this thread's arena).
    """
    context, lib = current(), _lib.lib
    kernels = {}
    for slot in range(lib.rd_kernel_slots()):
        chosen = lib.rd_kernel_chosen(context.handle, slot)
        isa = _isa_names(lib.rd_kernel_isa(context.handle, slot))
        kernels[lib.rd_kernel_slot_name(slot).decode()] = (
            chosen.decode() if chosen else None, isa[0] if isa else None)
    return {
        "version": lib.rd_version().decode(),
        "library": str(_lib.library_path),
        "threads": lib.rd_context_threads(context.handle),
        "isa_usable": _isa_names(lib.rd_isa_usable()),
        "isa_built": _isa_names(lib.rd_isa_built()),
        "kernels": kernels,
        "scratch_bytes": lib.rd_context_reserved(context.handle),
    }


assert sizeof(c_void_p) == 8, "redelta needs a 64-bit Python"
