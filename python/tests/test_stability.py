"""The stability case, as a user would write it."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oracle
import redelta
from conftest import Kind, raw, values


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_32_runs(rng: Any, library: str) -> None:
    pytest.importorskip(library)
    kind = Kind(library)
    B, Hk, Hv, T, K, V = 1, 16, 32, 512, 128, 128
    unit = lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)  # noqa: E731
    q, k = (kind.make(unit(rng.standard_normal((B, Hk, T, K))), "float16") for _ in range(2))
    v = kind.make(rng.standard_normal((B, Hv, T, V)), "float16")
    beta = kind.make(1 / (1 + np.exp(-rng.standard_normal((B, Hv, T)))), "float16")
    state, lengths = kind.make(np.zeros((B, Hv, K, V)), "float16"), kind.make([T], "int32")
    g = kind.make(-(rng.random((B, Hv, T)) + 0.01), "float32")

    runs = [redelta.chunk_gated_delta_rule(q, k, v, beta, state, lengths, g, K ** -0.5) for _ in range(32)]

    assert len({raw(out) + raw(final) for out, final in runs}) == 1
    expected, _ = oracle.chunk_gated_delta_rule(*(values(x) for x in (q, k, v, beta, state)), [T], values(g),
                                                K ** -0.5)
    out = values(runs[0][0])
    cosine = (out * expected).sum() / np.linalg.norm(out) / np.linalg.norm(expected)
    nrmse = np.sqrt(((out - expected) ** 2).mean()) / np.sqrt((expected ** 2).mean())
    assert np.isfinite(out).all() and cosine >= 0.999999 and nrmse <= 1e-3, (cosine, nrmse)
