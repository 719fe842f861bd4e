"""Arrays of any library as views of memory, and new arrays of the same library.

A *view* is ``(address, read-only, key, owner)``. ``key`` says everything else about the array - element
type, shape, strides - and is what call frames are cached under; :func:`describe` turns it into an
``rd_tensor``. Nothing is ever copied: what C cannot use as it lies in memory is an error.
"""
from __future__ import annotations

import functools
import sys
from typing import Any, Callable

import numpy as np

from . import _dlpack, _errors, _lib

View = tuple[int, bool, tuple, Any]

# ------------------------------------------------------------------------------- views ------------


def _numpy_view(array: np.ndarray) -> View:
    interface = array.__array_interface__
    address, read_only = interface["data"]
    return address, read_only, (array.dtype, interface["shape"], interface["strides"]), array


def _no_memory(tensor: Any) -> Exception:
    return _errors.RedeltaTypeError(
        f"tensor has no memory of its own to read ({type(tensor).__name__}); redelta.torch has operators "
        "for torch.compile and fake tensors")


def _torch_wrapper(kind: type, tensor_type: type) -> bool:
    """Whether a tensor subclass intercepts operators: what its memory holds is then its own affair."""
    own = kind.__mro__[:kind.__mro__.index(tensor_type)]
    return any("__torch_dispatch__" in base.__dict__ for base in own)


def _torch_viewer(torch: Any) -> Callable[[Any], View]:
    grad_enabled = torch.is_grad_enabled
    strided = torch.strided

    def view(tensor: Any) -> View:
        if tensor.requires_grad and grad_enabled():
            raise _errors.RedeltaValueError(
                "tensor requires grad, and these operators have no derivative: call them under "
                "torch.no_grad() or pass tensor.detach()")
        if not tensor.is_cpu:
            raise _errors.RedeltaValueError(f"tensor is on device {tensor.device}, expected cpu")
        if tensor.layout is not strided:
            raise _errors.RedeltaTypeError(f"tensor layout is {tensor.layout}, expected torch.strided")
        if tensor.is_neg():
            raise _errors.RedeltaTypeError("tensor is a lazily negated view; call resolve_neg() first")
        try:
            address = tensor.data_ptr()
        except RuntimeError as error:  # functional, batched
            raise _no_memory(tensor) from error
        if not address and tensor.numel():
            raise _no_memory(tensor)
        return address, False, (tensor.dtype, tensor.shape, tensor.stride()), tensor

    return view


def _dlpack_view(array: Any) -> View:
    return _dlpack.read(array)


def _interface_view(array: Any) -> View:
    return _numpy_view(np.asarray(array))


_viewers: dict[type, Callable[[Any], View]] = {np.ndarray: _numpy_view}

#: Tells autograd that a tensor was written in place; None until the first torch tensor is seen.
changed: Callable[[Any], None] | None = None


def _torch_changed(torch: Any) -> Callable[[Any], None]:
    tensor_type = torch.Tensor
    increment = getattr(getattr(torch.autograd, "graph", None), "increment_version", None)
    if increment is None:  # before torch 2.1: an operator in place that changes nothing
        def increment(tensor: Any) -> None:
            tensor.transpose_(0, 0)

    def tell(array: Any) -> None:
        if isinstance(array, tensor_type) and not array.is_inference():
            increment(array)

    return tell


def _torch() -> Any:
    """torch if the program uses it; this package never imports it by itself."""
    return sys.modules.get("torch")


def is_torch(array: Any) -> bool:
    """Whether this is a torch tensor (without importing torch)."""
    torch = _torch()
    return torch is not None and isinstance(array, getattr(torch, "Tensor", ()))


def viewer(kind: type, array: Any) -> Callable[[Any], View]:
    """The function that makes views of this type's objects, found once per type."""
    global changed
    found = _viewers.get(kind)
    if found is not None:
        return found
    if issubclass(kind, np.ma.MaskedArray):
        raise _errors.RedeltaTypeError("masked arrays are not supported (the mask would be ignored)")
    if issubclass(kind, np.ndarray):
        found = _numpy_view
    elif is_torch(array):
        if _torch_wrapper(kind, _torch().Tensor):
            raise _no_memory(array)
        found = _torch_viewer(_torch())
        changed = _torch_changed(_torch())
    elif hasattr(kind, "__dlpack__"):
        found = _dlpack_view
    elif hasattr(array, "__array_interface__"):
        found = _interface_view
    else:
        raise _errors.RedeltaTypeError(f"expected an array (NumPy, torch or DLPack), got {kind.__name__}")
    _viewers[kind] = found
    return found


# ------------------------------------------------------------------------------- description ------


def _dtype_code(dtype: Any) -> int | None:
    if isinstance(dtype, int):  # DLPack views carry the code itself
        return dtype
    if isinstance(dtype, np.dtype):
        # ml_dtypes registers its types with NumPy under their names.
        return _lib.DTYPE_CODES.get(dtype.name) if dtype.isnative else None
    return _lib.DTYPE_CODES.get(str(dtype).removeprefix("torch."))


def dtype_code(name: str, dtype: Any) -> int:
    """The rd_dtype of a NumPy, torch or DLPack element type."""
    code = _dtype_code(dtype)
    if code is None:
        hint = "; use ml_dtypes.bfloat16 or torch.bfloat16 for bfloat16" if "uint16" in str(dtype) else ""
        raise _errors.RedeltaTypeError(
            f"{name}: element type {dtype} is not supported (float32, float16, bfloat16, int32, int64 "
            f"in native byte order){hint}")
    return code


def describe(name: str, key: tuple, tensor: _lib.Tensor) -> int:
    """Fills ``tensor`` (but its data) from a view's key. Returns the element size."""
    dtype, shape, strides = key
    code = dtype_code(name, dtype)
    size = _lib.DTYPE_SIZES[code]
    rank = len(shape)
    if rank > _lib.MAX_RANK:
        raise _errors.RedeltaValueError(
            f"{name}: has {rank} dimensions, at most {_lib.MAX_RANK} are supported", 5)
    packed, step = [0] * rank, 1
    for i in reversed(range(rank)):
        packed[i] = step
        step *= shape[i]
    if strides is None or step == 0:
        strides = packed  # contiguous, or no element that a stride could reach
    elif isinstance(dtype, np.dtype):
        if any(s % size for s in strides):
            raise _errors.RedeltaValueError(
                f"{name}: strides of {tuple(strides)} bytes are no multiples of the element size {size}", 8)
        strides = [s // size for s in strides]
    tensor.dtype, tensor.rank = code, rank
    for i in range(rank):
        tensor.shape[i] = shape[i]
        # The stride of a dimension of one element says nothing, whatever the library put there.
        tensor.stride[i] = strides[i] if shape[i] > 1 else packed[i]
    return size


# ------------------------------------------------------------------------------- new arrays -------


class Lent:
    """Memory of ours as an array for DLPack consumers: ``xp.from_dlpack(Lent(...))`` copies nothing."""

    def __init__(self, owner: Any, address: int, code: int, shape: tuple, strides: tuple) -> None:
        self._what = (owner, address, code, shape, strides)
        self.shape = shape

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                   copy: Any = None) -> Any:
        return _dlpack.lend(*self._what)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """For NumPy, which cannot read its own types' relatives (bfloat16) this way."""
        owner, address, code, shape, strides = self._what
        if code == _lib.BF16:
            raise AttributeError("bfloat16 has no NumPy type; use __dlpack__")
        dtype = np.dtype(_lib.DTYPE_NAMES[code])
        return {"version": 3, "shape": tuple(shape), "typestr": dtype.str, "data": (address, False),
                "strides": tuple(stride * dtype.itemsize for stride in strides)}


def _packed(shape: tuple) -> tuple:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def empty_like(array: Any, shape: tuple, dtype: Any = None, *, zero: bool = False) -> Any:
    """A new contiguous array of ``array``'s library. ``dtype`` (a name) defaults to its own.

    For a library known only through DLPack the result is made by its ``from_dlpack`` (found through
    ``__array_namespace__``), or is an object that offers ``__dlpack__`` when there is none.
    """
    kind = type(array)
    if kind is np.ndarray or isinstance(array, np.ndarray):
        chosen = array.dtype if dtype is None else numpy_dtype(dtype)
        return (np.zeros if zero else np.empty)(shape, chosen)
    if is_torch(array):
        torch = _torch()
        chosen = array.dtype if dtype is None else getattr(torch, dtype)
        return (torch.zeros if zero else torch.empty)(shape, dtype=chosen)
    if hasattr(kind, "__dlpack__"):
        code = _dlpack.read(array)[2][0] if dtype is None else _lib.DTYPE_CODES[dtype]
        shape = tuple(shape)
        memory = np.zeros(max(int(np.prod(shape)), 1) * _lib.DTYPE_SIZES[code], np.uint8)
        lent = Lent(memory, memory.ctypes.data, code, shape, _packed(shape))
        namespace = getattr(array, "__array_namespace__", None)
        return namespace().from_dlpack(lent) if namespace is not None else lent
    view = np.asarray(array)
    return (np.zeros if zero else np.empty)(shape, view.dtype if dtype is None else numpy_dtype(dtype))


def shape_of(array: Any) -> tuple:
    """The shape of any array this package accepts."""
    shape = getattr(array, "shape", None)
    if isinstance(shape, tuple):
        return tuple(shape)
    return viewer(type(array), array)(array)[2][1]


@functools.lru_cache(maxsize=None)
def numpy_dtype(name: str) -> np.dtype:
    """The NumPy type of an element type's name; bfloat16 comes from ml_dtypes."""
    if name == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            raise _errors.RedeltaTypeError(
                "bfloat16 NumPy arrays need the package ml_dtypes (or use torch tensors)") from None
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)
