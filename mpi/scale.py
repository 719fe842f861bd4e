#!/usr/bin/env python3
"""Efficiency of a long prefill over P ranks, by simulation and by formula; docs/SCALE.md's figure and table.

usage: scale.py KERNEL_NS [--svg FILE]

KERNEL_NS: measured nanoseconds per token and value head of one rank (`redelta-mpi bench`). The simulation walks
every item of every layer through every rank: a rank starts an item when the rank before it has delivered the
state and its own last item is done; a link carries one message after the other; at most four states are on
their way from a rank.
"""
import argparse
import math

TOKENS, HEADS, LAYERS, K, V = 1_000_000, 32, 48, 128, 128
# How a plan may cut one layer of 16 key heads with two value heads each, and the time of a token by it: items of
# several key heads, of one, of one value head, of a part of its rows (choose_cut in mpi/src/plan.c).
CUTS = [(2, 1 + 0.17 / 8), (4, 1 + 0.17 / 4), (8, 1 + 0.17 / 2), (16, 1 + 0.17), (32, 1.17 + 0.04),
        (64, 1.17 + 0.04 * 3), (128, 1.17 + 0.04 * 7)]
LINKS = {"10 Gbit/s, 20 us": (10e9 / 8, 20e-6), "100 Gbit/s, 3 us": (100e9 / 8, 3e-6)}
PRODUCTS = 10e9  # multiply-adds per second of the scan's products
ON_THEIR_WAY = 4
RANKS = [1, 2, 4, 8, 16, 32, 64, 128, 256]


def cut(ranks, layers):
    return max(CUTS, key=lambda c: c[0] * layers / (c[0] * layers + ranks - 1) / c[1])


def pipeline(ranks, token, bandwidth, latency, layers=LAYERS):
    """Seconds, by simulation."""
    if ranks == 1:
        return TOKENS * HEADS * layers * token
    items, cost = cut(ranks, layers)
    work = TOKENS * HEADS * token * cost / ranks / items
    send = 4 * V * K * HEADS / items / bandwidth
    n = items * layers
    delivered = [0.0] * n  # when each state is at the rank
    for _ in range(ranks):
        free, link, gone = 0.0, 0.0, [0.0] * n
        for i in range(n):
            start = max(free, delivered[i], gone[i - ON_THEIR_WAY] if i >= ON_THEIR_WAY else 0.0)
            free = start + work
            link = max(link, free) + send
            gone[i] = link + latency
        delivered = gone
    return free


def pipeline_formula(ranks, token, bandwidth, latency):
    total = TOKENS * HEADS * LAYERS * token
    if ranks == 1:
        return total
    items, cost = cut(ranks, LAYERS)
    n = items * LAYERS
    item, wire = total * cost / ranks / n, latency + 4 * V * K * HEADS / items / bandwidth
    return n * max(item, wire) + (ranks - 1) * (item + wire)


def scan(ranks, token, bandwidth, latency):
    """Seconds, by formula: the passes, then log2 P rounds that all ranks take together."""
    passes = TOKENS * HEADS * token / ranks * (2 + K / V)
    step = latency + 4 * HEADS * (K * K + V * K) / bandwidth + HEADS * (K**3 + V * K * K) / PRODUCTS
    return LAYERS * (passes + math.ceil(math.log2(ranks)) * step) if ranks > 1 else TOKENS * HEADS * LAYERS * token


def rows(token):
    total = TOKENS * HEADS * LAYERS * token
    for name, (bandwidth, latency) in LINKS.items():
        for ranks in RANKS:
            seconds = pipeline(ranks, token, bandwidth, latency)
            formula = pipeline_formula(ranks, token, bandwidth, latency)
            one_layer = pipeline(ranks, token, bandwidth, latency, layers=1) * LAYERS
            yield (name, ranks, seconds, total / ranks / seconds, total / ranks / formula,
                   total / ranks / one_layer, total / ranks / scan(ranks, token, bandwidth, latency))


def draw(token, path):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "redelta"
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(figsize=(7, 4))
    for (name, *_), style in zip(LINKS.items(), ("--", "-")):
        mine = [r for r in rows(token) if r[0] == name]
        for column, colour, text in ((3, "tab:blue", "pipeline, 48 layers a step"),
                                     (5, "tab:green", "pipeline, agreed layer by layer"), (6, "tab:red", "scan")):
            axes.plot([r[1] for r in mine], [r[column] for r in mine], style, color=colour,
                      label=f"{text}, {name}", marker=".")
    axes.set_xscale("log", base=2)
    axes.set_xlabel("ranks")
    axes.set_ylabel("efficiency")
    axes.set_ylim(0, 1.02)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    axes.set_title(f"1M tokens, 32 value heads, 48 layers, {token * 1e9:.0f} ns per token and head (simulated)", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel_ns", type=float)
    parser.add_argument("--svg")
    arguments = parser.parse_args()
    token = arguments.kernel_ns * 1e-9
    print("| link | ranks | hours | pipeline, simulated | formula | layer by layer | scan |\n|---|---|---|---|---|---|---|")
    for name, ranks, seconds, *shares in rows(token):
        print(f"| {name} | {ranks} | {seconds / 3600:.3g} | " + " | ".join(f"{s:.3f}" for s in shares) + " |")
    if arguments.svg:
        draw(token, arguments.svg)


if __name__ == "__main__":
    main()
