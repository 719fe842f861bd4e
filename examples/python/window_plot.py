#!/usr/bin/env python3
"""Draws time and bytes of one speculation round against the window length (SVG or PNG).

For windows of 1..16 candidate tokens: verify plus commit of half of them with replay records, beside
decoding the window with one state snapshot per token, which is how rollback is done without records.
Times are medians on this machine; only their ratio means something.
"""
import argparse
import os
import statistics
import time

import numpy as np

import redelta


def median_ms(function, repeats):
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def measure(windows, batch, heads, repeats, seed):
    rng = np.random.default_rng(seed)
    problem = redelta.Problem(Hk=heads, Hv=heads, K=128, V=128, max_batch=batch, max_tokens=max(windows),
                              gate="lower_bound", beta="logit", qk_norm="l2")
    plan = redelta.Plan(problem)
    weights = {"A_log": rng.standard_normal(heads).astype(np.float32),
               "dt_bias": rng.standard_normal((heads, 128)).astype(np.float32)}
    pool = redelta.StatePool.for_problem(problem, batch)
    rows = []
    for window in windows:
        x = {name: rng.standard_normal((batch, window, heads, 128)).astype(np.float32) for name in "qkvg"}
        x["beta"] = rng.standard_normal((batch, window, heads)).astype(np.float32)
        records = plan.records(batch, window)
        accepted = np.full(batch, (window + 1) // 2, np.int32)
        snapshots = redelta.StatePool.for_problem(problem, batch * window)
        order = np.arange(batch * window, dtype=np.int32).reshape(batch, window)

        def replay():
            plan.verify(**x, **weights, state=pool, records=records)
            plan.commit(records, accepted, state=pool)

        def snapshot():
            plan.decode(**x, **weights, state=pool, snapshots=snapshots, snapshot_slots=order)

        rows.append((window, median_ms(replay, repeats), median_ms(snapshot, repeats),
                     records.nbytes / 2 ** 20, snapshots.numpy().nbytes / 2 ** 20))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", default="window.svg")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="few windows and repeats")
    options = parser.parse_args()
    try:  # first of all: measuring takes a while
        import matplotlib
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError:
        parser.error("drawing needs the package matplotlib, which is not installed")
    if not os.path.isdir(os.path.dirname(options.output) or "."):
        parser.error(f"no such folder: {os.path.dirname(options.output)}")
    kind = os.path.splitext(options.output)[1][1:].lower()
    if kind and kind not in FigureCanvasBase.get_supported_filetypes():
        parser.error(f"{options.output}: matplotlib cannot write {kind} files")
    windows, repeats = ((1, 4), 2) if options.quick else (tuple(range(1, 17)), 15)
    batch, heads = (1, 2) if options.quick else (options.batch, options.heads)
    rows = measure(windows, batch, heads, repeats, options.seed)

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    for axis, columns, label in ((left, (1, 2), "milliseconds per round"), (right, (3, 4), "MiB kept per round")):
        for column, name in zip(columns, ("verify + commit of half, by replay",
                                          "decode with a snapshot per token")):
            axis.plot(windows, [row[column] for row in rows], marker="o", label=name)
        axis.set_xlabel("window (candidate tokens)")
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    right.set_yscale("log")
    left.set_ylim(bottom=0)
    left.legend()
    figure.suptitle(f"KDA, {batch} sequences, {heads} heads, K = V = 128, float32, "
                    f"{redelta.get_num_threads()} threads")
    figure.tight_layout()
    figure.savefig(options.output)
    for row in rows:
        print("window %2d  replay %8.3f ms  snapshots %8.3f ms  records %8.3f MiB  snapshots %8.3f MiB" % row)
    print(f"wrote {options.output}")


if __name__ == "__main__":
    main()
