#!/usr/bin/env python3
"""Draws what `redelta bench --out FILE` measured: a roofline and a bar chart, as SVG.

usage: bench/render.py bench.json DIRECTORY
"""
import json
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "redelta"  # the same file for the same numbers
import matplotlib.pyplot as plt

VERBS = {"prefill": "o", "verify": "s", "decode": "^", "commit": "v", "folded": "D", "round": "P"}
LEVELS = {"hot": "tab:red", "L3": "tab:orange", "DRAM": "tab:blue"}


def label(r):
    size = f"({r['T']})" if r["verb"] in ("verify", "prefill") else f"({r['accepted']})" if r["verb"] == "commit" else ""
    return f"{r['family']} {r['verb']}{size} {r['numerics']} {r['level']}"


def roofline(data, machine, path):
    """Operations per byte of the state against operations per second; the floors' own units."""
    flops_per_op = 2 * machine["lanes"]
    peak = flops_per_op / machine["fma_ns"]
    fig, ax = plt.subplots(figsize=(8, 5))
    xs = [0.25, 4096]
    ax.plot(xs, [peak, peak], color="black", lw=1)
    ax.text(xs[1], peak * 1.05, f"{peak:.0f} GFLOP/s", ha="right")
    for name, colour in (("L2", "tab:red"), ("L3", "tab:orange"), ("DRAM", "tab:blue")):
        bw = machine["read_write_gbs"][name]
        ax.plot([xs[0], peak / bw], [xs[0] * bw, peak], color=colour, lw=1, label=f"{name} {bw:.0f} GB/s")
    for r in data["results"]:
        if r["isa"] != machine["isa"] or r["arithmetic_ns"] <= 0:
            continue
        unit = r["T"] if r["verb"] == "prefill" else 1
        flops = r["arithmetic_ns"] / machine["fma_ns"] * flops_per_op * unit
        bytes_moved = r["state_gbs"] * r["ns"] or 8 * data["dim"] ** 2
        ax.plot(flops / bytes_moved, flops / unit / r["ns"], VERBS[r["verb"]], color=LEVELS[r["level"]],
                mfc="none" if r["numerics"] == "FAST" else None, ms=6)
    for verb, mark in VERBS.items():
        ax.plot([], [], mark, color="grey", label=verb)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.set_xlabel("FLOP per byte of state moved")
    ax.set_ylabel("GFLOP/s, one thread")
    ax.set_title(f"{machine['isa']}: verbs under this machine's roof (hollow: FAST)")
    ax.legend(fontsize=8, ncol=2)
    fig.tight_layout()
    fig.savefig(path, metadata={"Date": None})
    plt.close(fig)


def bars(data, machine, path):
    rows = [r for r in data["results"] if r["isa"] == machine["isa"] and r["floor_ns"] > 0]
    fig, ax = plt.subplots(figsize=(8, 0.22 * len(rows) + 1.2))
    y = range(len(rows))
    ax.barh(y, [r["baseline_ns"] / r["floor_ns"] for r in rows], color="lightgrey", label="straightforward loop")
    ax.barh(y, [r["ns"] / r["floor_ns"] for r in rows], height=0.5, color="tab:blue", label="redelta")
    ax.axvline(1, color="black", lw=1)
    ax.set_yticks(list(y), [label(r) for r in rows], fontsize=7)
    ax.invert_yaxis()
    ax.set_xlabel("time over the floor set by peak and bandwidth")
    ax.legend(fontsize=8)
    fig.tight_layout()
    fig.savefig(path, metadata={"Date": None})
    plt.close(fig)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    data = json.loads(pathlib.Path(sys.argv[1]).read_text())
    out = pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    for machine in data["machines"]:
        roofline(data, machine, out / f"roofline-{machine['isa']}.svg")
        bars(data, machine, out / f"speed-{machine['isa']}.svg")


if __name__ == "__main__":
    main()
