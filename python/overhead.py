#!/usr/bin/env python3
"""What a warm call costs in Python beyond the C call: one decode of one head, one token.

The C call is timed in a C loop on the very structures the Python call fills (compiled on the spot with
cc), the Python call with timeit; both are minima over many rounds. The goals are under 30 microseconds, and
under 40 for redelta.fla, which makes its outputs and looks its plan up.
"""
from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

import numpy as np

import redelta
from redelta import _context

LOOP = """
#include <stdint.h>
#include <time.h>
typedef int (*call)(void *, void *, void *, void *, void *, void *, void *);
double loop(call f, void **a, int n) {
  struct timespec s, e;
  int bad = 0;
  clock_gettime(CLOCK_MONOTONIC, &s);
  for (int i = 0; i < n; i++) bad |= f(a[0], a[1], a[2], a[3], a[4], a[5], a[6]);
  clock_gettime(CLOCK_MONOTONIC, &e);
  return bad ? -1.0 : ((e.tv_sec - s.tv_sec) * 1e9 + (e.tv_nsec - s.tv_nsec)) / n;
}
"""


def best(function: Callable[[], Any], rounds: int = 400, number: int = 50) -> float:
    """Nanoseconds of one call: the least of many rounds."""
    least = float("inf")
    for _ in range(rounds):
        start = time.perf_counter_ns()
        for _ in range(number):
            function()
        least = min(least, (time.perf_counter_ns() - start) / number)
    return least


def c_time(loop: Any, leading: list, rounds: int = 400, number: int = 50) -> float:
    """Nanoseconds of the C call of the frame that was used last."""
    caller = _context.current()
    frame = list(caller.frames.values())[-1]
    handles = [_context._shared.handle, *leading]
    structs = [None if a is None else ctypes.addressof(s) for s, a in zip(frame.structs, frame.args)]
    values = handles + structs
    array = (ctypes.c_void_p * 7)(*(values + [None] * (7 - len(values))))
    return min(loop(ctypes.cast(frame.function, ctypes.c_void_p), array, number) for _ in range(rounds))


def plan_used(call: Callable[[], Any]) -> int:
    """The handle of the plan whose prefill this calls."""
    seen, prefill = [], redelta.Plan.prefill

    def watched(self: redelta.Plan, *arguments: Any, **named: Any) -> Any:
        seen.append(self._handle)
        return prefill(self, *arguments, **named)

    redelta.Plan.prefill = watched  # type: ignore[method-assign]
    try:
        call()
    finally:
        redelta.Plan.prefill = prefill  # type: ignore[method-assign]
    return seen[0]


def main() -> None:
    redelta.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        source, library = Path(directory, "loop.c"), Path(directory, "loop.so")
        source.write_text(LOOP)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
        loop = ctypes.CDLL(str(library)).loop
    loop.restype, loop.argtypes = ctypes.c_double, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]

    rng = np.random.default_rng(1)
    rows = []

    def measure(name: str, call: Callable[[], Any], leading: list) -> None:
        kept = call()  # the frame points to these outputs
        inner, outer = c_time(loop, leading), best(call)
        del kept
        rows.append((name, outer / 1e3, inner / 1e3, (outer - inner) / 1e3))

    n = rng.standard_normal
    values = {"mixedqkv": n((1, 1, 384)), "beta": n((1, 1, 1, 1)), "g": n((1, 1, 1, 128))}
    floats = {"state": n((1, 1, 128, 128)), "A_log": n(1), "dt_bias": n((1, 128))}
    try:
        import ml_dtypes
        arrays = {k: v.astype(ml_dtypes.bfloat16) for k, v in values.items()} | {
            k: v.astype(np.float32) for k, v in floats.items()}
        measure("fused_recurrent_kda, NumPy",
                lambda: redelta.fused_recurrent_kda(**arrays, scale=None), [])
    except ImportError:
        print("fused_recurrent_kda, NumPy: not run (no ml_dtypes)")
    try:
        import torch
        tensors = {k: torch.from_numpy(v).bfloat16() for k, v in values.items()} | {
            k: torch.from_numpy(v).float() for k, v in floats.items()}
        measure("fused_recurrent_kda, torch",
                lambda: redelta.fused_recurrent_kda(**tensors, scale=None), [])
    except ImportError:
        print("fused_recurrent_kda, torch: not run (no torch)")

    try:
        import torch
        from redelta import fla
        one = {name: torch.randn(1, 1, 1, 128) for name in "qkvg"} | {"beta": torch.rand(1, 1, 1)}
        initial = torch.randn(1, 1, 128, 128)

        def kda() -> Any:
            return fla.fused_recurrent_kda(**one, initial_state=initial, output_final_state=True,
                                           use_qk_l2norm_in_kernel=True)

        measure("fla.fused_recurrent_kda, torch", kda, [plan_used(kda)])
        one["g"] = -torch.rand(1, 1, 1)

        def gdn() -> Any:
            return fla.fused_recurrent_gated_delta_rule(**one, initial_state=initial, output_final_state=True,
                                                        use_qk_l2norm_in_kernel=True)

        measure("fla.fused_..._gated_delta_rule", gdn, [plan_used(gdn)])
    except ImportError:
        print("redelta.fla: not run (no torch)")

    problem = redelta.Problem(Hk=1, Hv=1, K=128, V=128, max_batch=1, max_tokens=1, gate="lower_bound",
                              beta="logit", qk_norm="l2")
    plan, pool = redelta.Plan(problem), redelta.StatePool.for_problem(problem, 1)
    x = {k: n((1, 1, 1, 128)).astype(np.float32) for k in "qkvg"}
    x |= {"beta": n((1, 1, 1)).astype(np.float32), "A_log": floats["A_log"].astype(np.float32),
          "dt_bias": floats["dt_bias"].astype(np.float32)}
    measure("Plan.decode, NumPy", lambda: plan.decode(**x, state=pool), [plan._handle])

    print(f"{'one head, one token, one thread':<34}{'Python':>10}{'C':>10}{'beyond':>10}   microseconds")
    for name, outer, inner, beyond in rows:
        print(f"{name:<34}{outer:>10.2f}{inner:>10.2f}{beyond:>10.2f}")


if __name__ == "__main__":
    main()
