"""Whose threads a call runs on: one pool for the whole process, lent to one call at a time.

A C context serves one call at a time. The process has one with all its threads; a call takes it when it is
free, from whichever Python thread. A call that finds it taken runs on its own Python thread alone, with a
context of that thread that has no pool. So calls from several threads run side by side and share one budget
of threads, whatever their number; no bit depends on it. Settings are process-wide and hold from the next
call on. After ``fork()`` the C library makes the pool anew in the child.
"""
from __future__ import annotations

import os
import threading
from ctypes import byref, c_void_p, sizeof
from typing import Any, Callable

from . import _cpus, _errors, _lib
from ._types import Info, Isa

_settings = {"threads": 0, "isa_mask": 0}
_default = _cpus.default_threads()  # what threads = 0 means
_generation = 0  # grows with every change of _settings


class Context:
    """A C context and the generation of the settings it was made with."""

    __slots__ = ("handle", "generation", "_destroy")

    def __init__(self, threads: int) -> None:
        self._destroy = _lib.lib.rd_context_destroy  # still there when modules are torn down
        self.handle: int | None = None
        self.generation = _generation
        options = _lib.ContextOptions()
        _lib.lib.rd_context_options_init_sized(byref(options), sizeof(options))
        options.threads, options.isa_mask = threads, _settings["isa_mask"]
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

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise _errors.RedeltaTypeError("a context of the C library cannot be copied or pickled")

    def call(self, function: Callable[..., int], *arguments: Any) -> None:
        """Calls C on this context and raises its error. The GIL is released meanwhile."""
        status = function(self.handle, *arguments)
        if status:
            text = _lib.lib.rd_last_error(self.handle).decode(errors="replace")
            raise _errors.from_status(status, text)


_lock = threading.Lock()  # of _shared
_shared: Context | None = None


class Caller:
    """A Python thread: its call frames, and a context for when the shared one is taken."""

    __slots__ = ("own", "frames")

    def __init__(self) -> None:
        self.own: Context | None = None
        self.frames: dict[Any, Any] = {}

    def call(self, function: Callable[..., int], *arguments: Any, patience: float = 0) -> None:
        """Calls ``function(context, *arguments)`` of C on the shared context, waiting up to ``patience``
        seconds for it, or else on this thread's own. Raises C's error."""
        global _shared
        lock = _lock
        if lock.acquire(timeout=patience) if patience else lock.acquire(False):
            try:
                context = _shared
                if context is None or context.generation != _generation:
                    context = _shared = Context(_threads())
                context.call(function, *arguments)
            finally:
                lock.release()
            return
        own = self.own
        if own is None or own.generation != _generation:
            own = self.own = Context(1)
        own.call(function, *arguments)


class _Local(threading.local):
    caller: Caller | None = None


_local = _Local()


def current() -> Caller:
    """The calling thread."""
    caller = _local.caller
    if caller is None:
        caller = _local.caller = Caller()
    return caller


def generation() -> int:
    """Grows with every change of the settings; a plan made under an older one may be refused."""
    return _generation


def _threads() -> int:
    return _settings["threads"] or _default


def _after_fork() -> None:
    """In the child of a fork: a context that was inside another thread's call stays busy for ever."""
    global _lock, _shared
    if _lock.locked():
        if _shared is not None:
            _shared.handle = None  # neither usable nor safe to destroy
        _lock, _shared = threading.Lock(), None


os.register_at_fork(after_in_child=_after_fork)


def _change(**settings: int) -> None:
    """Applies settings after proving, with a context of their own, that C accepts them."""
    global _generation
    before = dict(_settings)
    _settings.update(settings)
    try:
        Context(_threads())
    except Exception:
        _settings.update(before)
        raise
    _generation += 1


def set_num_threads(threads: int | None) -> None:
    """Sets how many threads calls may use, for the whole process from the next call on.

    Calls that run at the same time share them: one uses them all, others run on their Python threads
    alone. ``None`` or 0 means the default: the CPUs this process may use, at most its control group's CPU
    quota (rounded up) and the environment variable ``OMP_NUM_THREADS``. The results never depend on it:
    every operator gives the same bits for every thread count.

    Raises ``TypeError`` for a non-integer, ``ValueError`` for a negative count or more than 1024.
    """
    threads = 0 if threads is None else _errors.integer("threads", threads)
    if not 0 <= threads <= 1024:
        raise _errors.RedeltaValueError(f"threads must be in 0..1024, got {threads}")
    global _default
    _default = _cpus.default_threads()
    _change(threads=threads)


def get_num_threads() -> int:
    """How many threads a call may use, shared by those that run at the same time."""
    return _threads()


def set_isa(*names: Isa) -> None:
    """Restricts the instruction sets: any of ``"scalar"``, ``"scalar_fma"``, ``"avx2"``, ``"avx512"``,
    ``"neon"``, ``"amx"`` (only together with ``"avx512"``). No names lift the restriction. EXACT results have the same bits for all of them.

    Plans belong to the instruction sets they were made with; make them anew after a change. Raises
    ``ValueError`` for an unknown name and ``RuntimeError`` for one this build or machine cannot run.
    """
    mask = 0
    for name in names:
        if not isinstance(name, str):
            raise _errors.RedeltaTypeError(f"instruction sets are named by strings, got {_errors.shown(name)}")
        if name not in _lib.ISA_BITS:
            raise _errors.RedeltaValueError(
                f"unknown instruction set {_errors.shown(name)}; known: {', '.join(_lib.ISA_BITS)}")
        mask |= _lib.ISA_BITS[name]
    _change(isa_mask=mask)


def _isa_names(bits: int) -> list[str]:
    return [name for name, bit in _lib.ISA_BITS.items() if bits & bit]


def info() -> Info:
    """What runs here: library version and path, threads, instruction sets, the chosen kernels.

    Keys: ``version``, ``library``, ``threads``, ``isa_usable``, ``isa_built`` and ``isa_emulated`` (lists of names),
    ``kernels`` (slot -> ``(kernel, instruction set)``, ``("exact", None)`` where FAST has none of its
    own), ``scratch_bytes`` (the arena of the context that was free).
    """
    lib, scratch = _lib.lib, 0
    kernels: dict[str, tuple[str | None, str | None]] = {}

    def look(handle: int) -> int:
        nonlocal scratch
        scratch = lib.rd_context_reserved(handle)
        for slot in range(lib.rd_kernel_slots()):
            chosen = lib.rd_kernel_chosen(handle, slot)
            isa = _isa_names(lib.rd_kernel_isa(handle, slot))
            kernels[lib.rd_kernel_slot_name(slot).decode()] = (
                chosen.decode() if chosen else None, isa[0] if isa else None)
        return 0

    current().call(look, patience=1)
    return {
        "version": lib.rd_version().decode(),
        "library": str(_lib.library_path),
        "threads": _threads(),
        "isa_usable": _isa_names(lib.rd_isa_usable()),
        "isa_built": _isa_names(lib.rd_isa_built()),
        "isa_emulated": _isa_names(lib.rd_isa_emulated()),
        "kernels": kernels,
        "scratch_bytes": scratch,
    }


assert sizeof(c_void_p) == 8, "redelta needs a 64-bit Python"
