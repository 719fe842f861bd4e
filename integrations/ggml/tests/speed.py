"""Time of GATED_DELTA_NET, stock and plugin, in turns. SPDX-License-Identifier: Apache-2.0

usage: speed.py WHEEL PLUGIN [THREADS]
"""

import statistics
import sys
import time

import numpy as np
from ggml_host import I64, Graph, Host, P
from test_operator import add, inputs


def main():
    wheel, plugin = sys.argv[1:3]
    threads = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    host, rng = Host(wheel), np.random.default_rng(1)
    backends = [host.backend(host.load(p), threads) for p in (wheel + "/bin/libggml-cpu.so", plugin)]
    for T, rounds in ((1, 200), (16, 40), (512, 5)):
        times = ([], [])
        runs = []
        x = inputs(rng, 128, 16, 32, T, 1, False)
        for backend in backends:
            graph = Graph(host)
            op = graph.call("ggml_gated_delta_net", *add(graph, x, "q k v g beta state".split()), I64(1))
            runs.append((graph, backend, *graph.compute(backend, op)))
        for _ in range(rounds):
            for (graph, backend, built, _, _), took in zip(runs, times):
                start = time.perf_counter()
                graph.b.ggml_backend_graph_compute(P(backend), built)
                took.append(time.perf_counter() - start)
        stock, mine = (statistics.median(t) * 1e6 for t in times)
        print(f"{threads} threads, 128 x 128, 16/32 heads, T={T}: stock {stock:.0f} us, redelta {mine:.0f} us, {stock / mine:.2f} x")


if __name__ == "__main__":
    main()
