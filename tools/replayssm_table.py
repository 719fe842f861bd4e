#!/usr/bin/env python3
"""Tables of docs/NPU-REPLAYSSM.md: modelled time, bytes and vector use of verify and commit by launch size.

usage: tools/replayssm_table.py build/redelta
"""
import json
import subprocess
import sys

SIZES = (8, 24, 28, 32)
CASES = (("32 sequences x 32 heads", 32, 32), ("8 sequences x 12 heads", 8, 12), ("1 sequence x 6 heads", 1, 6))
TOKENS, ACCEPTED, D = 8, 4, 128


def trace(tool, kernel, shape, size):
    out = subprocess.run([tool, "npu", "trace", kernel, "--shape", shape, "--block-num", str(size), "--json"],
                         check=True, capture_output=True, text=True).stdout
    return json.loads(out)


def pipe(result, name):
    return next(p for p in result["pipes"] if p["pipe"] == name)


def launch_rows(tool):
    yield "| work | AI cores | verify cycles | V busy | read MiB | written MiB | commit cycles | V busy | read MiB | written MiB |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for title, B, N in CASES:
        for size in SIZES:
            cells = [title, str(size)]
            for kernel, shape in (
                ("fused_recurrent_kda_replayssm", f"layout=BSND,B={B},N={N},S={TOKENS}"),
                ("commit_recurrent_kda_replayssm", f"B={B},N={N},C={TOKENS},accepted={ACCEPTED}"),
            ):
                r = trace(tool, kernel, shape, size)
                cells += [f"{r['cycles']:,}", f"{pipe(r, 'V')['busy_percent']:.0f} %",
                          f"{pipe(r, 'MTE2')['bytes'] / 2**20:.1f}", f"{pipe(r, 'MTE3')['bytes'] / 2**20:.1f}"]
            yield "| " + " | ".join(cells) + " |"


def round_rows():
    """Bytes of one speculation round per head: T tokens verified, m accepted (one row block per head)."""
    state, inputs = 4 * D * D, TOKENS * (4 * 2 * D + 2) + 4 * D + 4
    outputs, record = TOKENS * 2 * D, (2 + 2 + 4) * D
    replay = [("verify", state + inputs, outputs + TOKENS * record),
              ("commit", state + ACCEPTED * record, state)]
    snapshot = [("verify with snapshots", state + inputs, outputs + TOKENS * state), ("commit (slot number)", 0, 0)]
    yield "| | read | written | held until commit |"
    yield "|---|---|---|---|"
    for name, steps, held in (("replay records", replay, TOKENS * record), ("a snapshot per token", snapshot, TOKENS * state)):
        for step, r, w in steps:
            yield f"| {name}: {step} | {r:,} | {w:,} | |"
        yield f"| {name}: round | {sum(s[1] for s in steps):,} | {sum(s[2] for s in steps):,} | {held:,} |"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print("\n".join(launch_rows(sys.argv[1])), "\n".join(round_rows()), sep="\n\n")
