"""Arguments of the named operators, of any kind of array, with distinct sizes everywhere."""
from __future__ import annotations

from typing import Any

import numpy as np

from conftest import Kind, values


def chunk(kind: Kind, rng: np.random.Generator, *, B=2, Hk=2, Hv=4, T=5, K=64, V=32, dtype="float32",
          state_dtype="float32", lengths=None, gate=True) -> dict[str, Any]:
    """chunk_gated_delta_rule's arguments by name."""
    def unit(*shape):
        x = rng.standard_normal(shape)
        return x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)

    lengths = [T] * B if lengths is None else lengths
    return {
        "query": kind.make(unit(B, Hk, T, K), dtype), "key": kind.make(unit(B, Hk, T, K), dtype),
        "value": kind.make(rng.standard_normal((B, Hv, T, V)), dtype),
        "beta": kind.make(1 / (1 + np.exp(-rng.standard_normal((B, Hv, T)))), dtype),
        "state": kind.make(rng.standard_normal((B, Hv, K, V)) * 0.3, state_dtype),
        "actual_seq_lengths": kind.make(np.array(lengths), "int32"),
        "g": kind.make(-(rng.random((B, Hv, T)) + 0.01), "float32") if gate else None,
        "scale_value": K ** -0.5,
    }


def _layout(x: np.ndarray, layout: str) -> np.ndarray:
    """[B,S,N,..] -> the layout, contiguous. TND expects B = 1."""
    return x[0] if layout == "TND" else x.swapaxes(1, 2) if layout == "BNSD" else x


def _pack(q, k, v, layout: str) -> np.ndarray:
    if layout == "BNSD":
        return np.concatenate([x.swapaxes(1, 2) for x in (q, k, v)], axis=1)
    flat = np.concatenate([x.reshape(*x.shape[:2], -1) for x in (q, k, v)], axis=-1)
    return flat[0] if layout == "TND" else flat


def _kda(kind: Kind, rng: np.random.Generator, layout: str, lengths: list[int], N: int, spread: float):
    B, S = (1, sum(lengths)) if layout == "TND" else (len(lengths), lengths[0])
    n = rng.standard_normal
    q, k, v, g = (spread * n((B, S, N, 128)) for _ in range(4))
    beta = spread * n((B, S, N, 1))
    common = {"A_log": kind.make(n(N), "float32"), "dt_bias": kind.make(n((N, 128)), "float32"),
              "beta": kind.make(_layout(beta, layout), "bfloat16"),
              "g": kind.make(_layout(g, layout), "bfloat16"), "layout_qkv": layout, "scale": None}
    common["mixedqkv"] = kind.make(_pack(q, k, v, layout), "bfloat16")
    common["cu_seqlens"] = (kind.make(np.cumsum([0] + lengths), "int32") if layout == "TND" else None)
    return common


def verify(kind: Kind, rng: np.random.Generator, *, layout="BSND", lengths=(3, 3), N=2, capacity=None,
           spread=0.2) -> dict[str, Any]:
    """fused_recurrent_kda_replayssm's arguments by name; records are pre-filled with -7."""
    lengths = list(lengths)
    made = _kda(kind, rng, layout, lengths, N, spread)
    B, C = len(lengths), max(lengths) + 2 if capacity is None else capacity
    made["recurrent_state"] = kind.make(0.02 * rng.standard_normal((B, N, 128, 128)), "float32")
    for name, dtype in (("replay_u", "float16"), ("replay_k", "float16"), ("replay_decay", "float32")):
        made[name] = kind.make(np.full((B, C, N, 128), -7.0), dtype)
    return made


def decode(kind: Kind, rng: np.random.Generator, *, layout="BSND", lengths=(3, 3), N=2, slots=None,
           indices=None, accepted=None, state_dtype="float32") -> dict[str, Any]:
    """fused_recurrent_kda's arguments by name."""
    lengths = list(lengths)
    made = _kda(kind, rng, layout, lengths, N, 0.5)
    R = sum(lengths) if slots is None else slots
    made["state"] = kind.make(0.2 * rng.standard_normal((R, N, 128, 128)), state_dtype)
    made["ssm_state_indices"] = None if indices is None else kind.make(np.array(indices), "int32")
    made["num_accepted_tokens"] = None if accepted is None else kind.make(np.array(accepted), "int32")
    return made


def flash(kind: Kind, rng: np.random.Generator, *, layout="BNSD", lengths=(7, 7), Hk=2, Hv=4,
          ) -> dict[str, Any]:
    """flash_kda's arguments by name, without metadata."""
    lengths = list(lengths)
    B, S = (1, sum(lengths)) if layout == "TND" else (len(lengths), max(lengths))
    n = rng.standard_normal
    return {
        **{name: kind.make(_layout(n((B, S, H, 128)), layout), "bfloat16")
           for name, H in (("q", Hk), ("k", Hk), ("v", Hv), ("g", Hv))},
        "beta": kind.make(_layout(n((B, S, Hv)), layout), "bfloat16"), "scale": None,
        "initial_state": kind.make(0.2 * n((len(lengths), Hv, 128, 128)), "float32"),
        "A_log": kind.make(n(Hv), "float32"), "dt_bias": kind.make(n((Hv, 128)), "float32"),
        "layout_qkv": layout,
    }


def numbers(case: dict[str, Any]) -> dict[str, Any]:
    """The case with every array as float64 values (indices as integers)."""
    def number(name: str, x: Any) -> Any:
        if x is None or isinstance(x, (str, float, int)):
            return x
        array = values(x)
        whole = name in ("cu_seqlens", "actual_seq_lengths", "ssm_state_indices", "num_accepted_tokens")
        return array.astype(np.int64) if whole else array
    return {name: number(name, x) for name, x in case.items()}
