"""GATED_DELTA_NET of the plugin against the stock operator. SPDX-License-Identifier: Apache-2.0

usage: test_operator.py WHEEL PLUGIN-FOR-API-3 PLUGIN-FOR-API-2 [SEED]
"""

import ctypes as C
import sys

import numpy as np
from ggml_host import I64, Graph, Host

BOUND = 1e-6
SIZES = [(S, Hk, Hv) for S in (16, 32, 64, 128) for Hk, Hv in ((1, 1), (2, 2), (2, 4), (2, 6), (3, 3))]


def inputs(rng, S, Hk, Hv, T, B, channel):
    def unit(shape):
        x = rng.standard_normal(shape).astype(np.float32)
        return x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)

    f = np.float32
    return {
        "q": unit((B, T, Hk, S)),
        "k": unit((B, T, Hk, S)),
        "v": rng.standard_normal((B, T, Hv, S)).astype(f),
        "g": -rng.exponential(0.3, (B, T, Hv, S if channel else 1)).astype(f),
        "beta": rng.uniform(0, 1, (B, T, Hv, 1)).astype(f),
        "state": (0.3 * rng.standard_normal((B, Hv, S, S))).astype(f),
    }


def add(graph, x, names):
    return [graph.new(x[n], x[n].shape[::-1]) for n in names]


def alone(host, backend, x, depth):
    graph = Graph(host)
    root = graph.call("ggml_gated_delta_net", *add(graph, x, "q k v g beta state".split()), I64(depth))
    _, buffer, status = graph.compute(backend, root)
    assert status == 0, status
    B, T, Hv, S = x["v"].shape
    out = graph.read(root, (S * Hv * T + min(depth, T) * S * S * Hv) * B)  # deeper slots are not written
    graph.free(buffer)
    return out


def in_cache(host, backend, x, depth, cache, ids, head, refused=False):
    """Rows of a state cache through the operator and back, as llama.cpp does it; `refused`: the graph fails."""
    B, T, Hv, S = x["v"].shape
    D, rows, kept = S * S * Hv, cache.shape[0] // depth, min(depth, T)
    graph = Graph(host)
    table = graph.new(cache, (D, cache.shape[0]), name=b"cache_s_l0")
    taken = graph.call("ggml_get_rows", table, graph.new(ids, (B,), kind=26))
    state = graph.call("ggml_reshape_4d", taken, I64(S), I64(S), I64(Hv), I64(B))
    args = add(graph, x, "q k v g beta".split())
    op = graph.call("ggml_gated_delta_net", *args, state, I64(depth))
    size = C.c_size_t
    states = graph.call("ggml_view_3d", op, I64(D), I64(B), I64(kept), size(4 * D), size(4 * D * B), size(4 * S * Hv * T * B))
    into = graph.call("ggml_view_3d", table, I64(D), I64(B), I64(kept), size(4 * D), size(4 * D * rows), size(4 * D * head))
    _, buffer, status = graph.compute(backend, graph.call("ggml_cpy", states, into))
    assert (status != 0) == refused, status
    out = np.concatenate([graph.read(op, S * Hv * T * B), graph.read(table, cache.size)])
    graph.free(buffer)
    return out


def bad_rows(host, backend, rng):
    """Rows that the cache does not have: the graph fails and the cache keeps its bytes (ggml aborts)."""
    x = inputs(rng, 16, 1, 2, 1, 2, False)
    cache = rng.standard_normal((4, 16 * 16 * 2)).astype(np.float32)
    bad = 0
    for ids in ([0, 4], [-1, 1], [2, 2**31 - 1]):
        for depth in (1, 2):
            out = in_cache(host, backend, x, depth, cache, np.array(ids, np.int32), 0, refused=True)
            bad += not np.array_equal(out[-cache.size:], cache.ravel())
    return bad


def distance(a, b):
    return float(np.max(np.abs(a.astype(np.float64) - b)) / max(1.0, float(np.max(np.abs(b)))))


def main():
    wheel, plugin, other = sys.argv[1:4]
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 20260828
    print("seed", seed)
    rng = np.random.default_rng(seed)
    host = Host(wheel)
    cpu, ours = host.load(wheel + "/bin/libggml-cpu.so"), host.load(plugin)
    assert cpu and ours, "a backend could not be loaded"
    assert not host.load(other), "the plugin for the other interface version registered"
    stock, mine = host.backend(cpu, 2), host.backend(ours, 2)
    one = host.backend(ours, 1)
    cases = failed = 0
    worst = 0.0
    for S, Hk, Hv in SIZES:
        for channel in (False, True):
            for T, B, depth in ((1, 1, 1), (1, 3, 1), (5, 2, 1), (17, 1, 1), (33, 2, 1), (1, 2, 3), (2, 2, 4), (9, 2, 3)):
                x = inputs(rng, S, Hk, Hv, T, B, channel)
                cache = (0.3 * rng.standard_normal(((B + 2) * depth, S * S * Hv))).astype(np.float32)
                head = int(rng.integers(0, 3))
                ids = rng.permutation(B + 2)[:B] if rng.integers(2) else head + np.arange(B)
                ids = ids.astype(np.int32)
                for name, run in (
                    ("alone", lambda be: alone(host, be, x, depth)),
                    ("cache", lambda be: in_cache(host, be, x, depth, cache, ids, head)),
                ):
                    want, got = run(stock), run(mine)
                    far, cases = distance(got, want), cases + 1
                    worst = max(worst, far)
                    if not far <= BOUND or not np.array_equal(got, run(one)):
                        failed += 1
                        print(f"{name} S={S} Hk={Hk} Hv={Hv} T={T} B={B} depth={depth} channel={channel}: {far:.2e}")
    wild = bad_rows(host, mine, rng)
    failed, cases = failed + wild, cases + 6
    print(f"{cases - failed} passed, {failed} failed, 0 skipped; largest distance {worst:.2e}")
    return 1 if failed or cases < 400 else 0


if __name__ == "__main__":
    sys.exit(main())
