"""Call frames: C parameter structures kept filled from one call to the next.

A frame belongs to one operation and one *signature* (presence, element type, shape and strides of every
array). A warm call looks its frame up, writes the data pointers and calls C, which costs a few
microseconds; a new signature builds a frame. Frames belong to the calling thread. While in use a frame
is out of the cache, so a finaliser or signal handler that calls in between gets one of its own.
"""
from __future__ import annotations

from ctypes import byref, c_uint64, sizeof
from typing import Any, Sequence

from numpy import ndarray

from . import _array, _context, _errors, _lib

_CACHE = 512  # frames per thread; all are dropped when it is full

_viewers = _array._viewers


class Operation:
    """What a C function takes: structures, and the place of each array in them.

    ``structs`` are (type, initialiser or None, optional?) in argument order; a None type leaves an
    argument for :meth:`Frame.put`. An optional structure is passed as NULL when its first array is
    absent. ``sites`` are (Python name, index of the structure, field or None for the structure itself);
    ``writes`` names those written in place, ``required`` those that may not be None.
    """

    def __init__(self, function: str, structs: Sequence[tuple], sites: Sequence[tuple],
                 writes: str = "", required: str = "") -> None:
        self.name = function
        self.function = getattr(_lib.lib, function)
        self.structs = structs
        self.sites = sites
        self.names = [site[0] for site in sites]
        self.writes = frozenset(i for i, n in enumerate(self.names) if n in writes.split())
        self.required = frozenset(i for i, n in enumerate(self.names) if n in required.split())


class Frame:
    """One operation's structures for one signature."""

    __slots__ = ("operation", "function", "key", "structs", "args", "cells", "params", "owners")

    def __init__(self, operation: Operation, key: tuple) -> None:
        self.operation, self.function, self.key = operation, operation.function, key
        self.structs: list[Any] = []
        self.args: list[Any] = []
        self.owners: Any = None
        for struct, initialise, _ in operation.structs:
            made: Any = None if struct is None else struct()
            if initialise is not None:
                initialise(byref(made), sizeof(made))
            elif made is not None and hasattr(made, "struct_size"):
                made.struct_size = sizeof(made)
            self.structs.append(made)
            self.args.append(None if made is None else byref(made))
        self.params: Any = self.structs[0]
        self.cells: list[Any] = []
        given = set()
        for i, (name, index, field) in enumerate(operation.sites):
            if key[i + 1] is None:
                if i in operation.required:
                    raise _errors.RedeltaTypeError(f"{name}: expected an array, got None", 1)
                continue
            struct = self.structs[index]
            tensor = struct if field is None else getattr(struct, field)
            size = _array.describe(name, key[i + 1], tensor)
            place = 0 if field is None else getattr(type(struct), field).offset
            cell = c_uint64.from_buffer(struct, place + _lib.Tensor.data.offset)
            self.cells.append((cell, size - 1, i, i in operation.writes))
            given.add(index)
        for index, (_, _, optional) in enumerate(operation.structs):
            if optional and index not in given:
                self.args[index] = None

    def put(self, index: int, pointer: Any) -> None:
        """Sets an argument that the signature does not determine."""
        self.args[index] = pointer

    def run(self, caller: _context.Caller, *leading: Any) -> None:
        """Calls C; raises its error. The GIL is released meanwhile."""
        owners = self.owners
        try:
            caller.call(self.function, *leading, *self.args)
        finally:
            self.owners = None
        changed = _array.changed
        if changed is not None and self.operation.writes:
            for view, cell in zip(owners, self.cells):
                if cell[3]:
                    changed(view[3])
        frames = caller.frames
        if len(frames) >= _CACHE:
            frames.clear()
        frames[self.key] = self


def _refused(operation: Operation, index: int, problem: str, status: int | None = None) -> Exception:
    return _errors.RedeltaValueError(f"{operation.names[index]}: {problem}", status)


def enter(operation: Operation, arrays: Sequence[Any]) -> tuple[_context.Caller, Frame]:
    """The calling thread and a frame with every pointer set, ready for scalars and ``run``."""
    caller = _context.current()
    key: list[Any] = [operation]
    views: list[Any] = []
    key_append, views_append = key.append, views.append
    for array in arrays:
        if array is None:
            key_append(None)
            continue
        kind = type(array)
        if kind is ndarray:  # _array._numpy_view, without the call: most arrays of a warm loop
            interface = array.__array_interface__
            address, read_only = interface["data"]
            about = (array.dtype, interface["shape"], interface["strides"])
            key_append(about)
            views_append((address, read_only, about, array))
            continue
        try:
            view = (_viewers.get(kind) or _array.viewer(kind, array))(array)
        except _errors.Error as error:
            name = operation.names[len(key) - 1]
            raise type(error)(f"{name}: {error}", error.status) from None
        key_append(view[2])
        views_append(view)
    signature = tuple(key)
    frame = caller.frames.pop(signature, None)
    if frame is None:
        frame = Frame(operation, signature)
    for (address, read_only, _, _), (cell, mask, index, written) in zip(views, frame.cells):
        if read_only and written:
            raise _refused(operation, index, "is written in place, but the array is read-only")
        if address & mask:
            raise _refused(operation, index, f"memory is not aligned to its element size {mask + 1}", 8)
        cell.value = address
    frame.owners = views
    return caller, frame
