#!/usr/bin/env python3
"""Is it stable? Runs one Gated DeltaNet prefill many times and looks at every bit.

The Qwen3.5 shape (16 key heads, 32 value heads, K = V = 128) in float16. Prints, for each run, cosine
and NRMSE against the first run, then repeats with other thread counts and instruction sets. Exits 1 if
any bit differs.
"""
import argparse
import sys

import numpy as np

import redelta


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    B, Hk, Hv, T, K, V = 1, 16, 32, options.tokens, 128, 128
    rng = np.random.default_rng(options.seed)
    q, k = (unit(rng.standard_normal((B, Hk, T, K))).astype(np.float16) for _ in range(2))
    v = rng.standard_normal((B, Hv, T, V)).astype(np.float16)
    beta = (1 / (1 + np.exp(-rng.standard_normal((B, Hv, T))))).astype(np.float16)
    g = -(rng.random((B, Hv, T)) + 0.01).astype(np.float32)
    state, lengths = np.zeros((B, Hv, K, V), np.float16), np.array([T], np.int32)

    def run():
        return redelta.chunk_gated_delta_rule(q, k, v, beta, state, lengths, g, K ** -0.5)

    print(f"seed {options.seed}, {options.runs} runs of B={B} Hk={Hk} Hv={Hv} T={T} K={K} V={V}")
    first = run()
    reference, different = first[0].astype(np.float64), 0
    for i in range(options.runs):
        out, final = run()
        x = out.astype(np.float64)
        cosine = (x * reference).sum() / np.linalg.norm(x) / np.linalg.norm(reference)
        nrmse = np.sqrt(((x - reference) ** 2).mean()) / np.sqrt((reference ** 2).mean())
        same = out.tobytes() == first[0].tobytes() and final.tobytes() == first[1].tobytes()
        different += not same
        print(f"run {i + 1:2}  cosine {cosine:.9f}  NRMSE {nrmse:.1e}  NaN/Inf {np.sum(~np.isfinite(x))}  "
              f"{'same bits' if same else 'DIFFERENT BITS'}")

    facts = redelta.info()
    for isa in set(facts["isa_usable"]) & set(facts["isa_built"]):
        for threads in (1, 2, 5):
            redelta.set_isa(isa, *(["avx512"] if isa == "amx" else []))
            redelta.set_num_threads(threads)
            same = all(a.tobytes() == b.tobytes() for a, b in zip(run(), first))
            different += not same
            print(f"{isa:<10} {threads} threads  {'same bits' if same else 'DIFFERENT BITS'}")

    print("all runs bit-identical" if not different else f"{different} runs differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
