"""Kinds of arrays, conversions, and the seed that every random test prints."""
from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None
try:
    import torch
except ImportError:
    torch = None

SEED = int(os.environ.get("REDELTA_SEED", "20251130"))


def pytest_report_header(config: Any) -> list[str]:
    import redelta
    return [f"seed {SEED} (REDELTA_SEED)", f"redelta library {redelta.info()['library']}",
            f"torch {torch.__version__ if torch else 'not run'}, "
            f"ml_dtypes {ml_dtypes.__version__ if ml_dtypes else 'not run'}"]


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Its own stream for every test, reproducible from the seed and the test's name."""
    return np.random.default_rng([SEED, *request.node.name.encode()])


class Foreign:
    """An array of some other library: all it has is DLPack (made from a torch tensor or NumPy array)."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __dlpack__(self, **options: Any) -> Any:
        return self.inner.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return self.inner.__dlpack_device__()


class Kind:
    """Makes arrays of one library from NumPy float64 values, and reads them back."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def make(self, values: Any, dtype: str) -> Any:
        values = np.ascontiguousarray(values)
        if self.name == "numpy":
            return values.astype(getattr(ml_dtypes, dtype) if dtype == "bfloat16" else dtype)
        tensor = torch.from_numpy(np.array(values, np.int64 if "int" in dtype else np.float64))
        tensor = tensor.to(getattr(torch, dtype)).clone()
        return tensor if self.name == "torch" else Foreign(tensor)

    def is_mine(self, array: Any) -> bool:
        if self.name == "numpy":
            return isinstance(array, np.ndarray)
        if self.name == "torch":
            return isinstance(array, torch.Tensor)
        return hasattr(array, "__dlpack__")


def values(array: Any) -> np.ndarray:
    """The values in float64."""
    if isinstance(array, Foreign):
        return values(array.inner)
    if torch is not None and not isinstance(array, (np.ndarray, torch.Tensor)):
        array = torch.from_dlpack(array)
    if torch is not None and isinstance(array, torch.Tensor):
        return array.detach().to(torch.float64).numpy()
    return np.asarray(array).astype(np.float64)  # through __array_interface__ where it is foreign


def raw(array: Any) -> bytes:
    """The bytes of an array's elements."""
    if isinstance(array, Foreign):
        return raw(array.inner)
    if torch is not None and not isinstance(array, (np.ndarray, torch.Tensor)):
        array = torch.from_dlpack(array)
    if torch is not None and isinstance(array, torch.Tensor):
        array = array.detach().contiguous()
        if array.dtype == torch.bfloat16:
            array = array.view(torch.int16)
        return array.numpy().tobytes()
    return np.asarray(array).tobytes()


KINDS = [pytest.param(Kind("numpy"), id="numpy", marks=pytest.mark.skipif(
             ml_dtypes is None, reason="ml_dtypes is not installed")),
         pytest.param(Kind("torch"), id="torch", marks=pytest.mark.skipif(
             torch is None, reason="torch is not installed")),
         pytest.param(Kind("dlpack"), id="dlpack", marks=pytest.mark.skipif(
             torch is None, reason="torch is not installed"))]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


@pytest.fixture(autouse=True)
def _settings_restored() -> Any:
    yield
    import redelta
    from redelta import _context
    if _context._settings != {"threads": 0, "isa_mask": 0}:
        redelta.set_isa()
        redelta.set_num_threads(None)
