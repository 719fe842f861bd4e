#!/usr/bin/env python3
"""Speculative serving with continuous batching: does speculation change the result? Not by a bit.

A toy server for one Kimi Delta Attention layer. Requests arrive, get a slot of the state pool and a
prompt, and join the batch; every step a draft proposes a few tokens for each sequence, the layer
verifies them all in one call, a random number of them is accepted, and finished sequences leave. At the
end every sequence that is still there, and every one that left, is decoded again plainly, token by
token: the final states must be equal bit for bit. Exits 1 if one is not.
"""
import argparse
import sys

import numpy as np

import redelta

HEADS, SIZE, WINDOW = 4, 128, 8


class Request:
    """A sequence: all tokens a draft might ever propose, and how many are part of the text."""

    def __init__(self, rng, slot, tokens):
        def normal(*shape):
            return rng.standard_normal((1, tokens + WINDOW, *shape)).astype(np.float32)

        self.slot, self.wanted, self.done = slot, tokens, 0
        self.q, self.k, self.v, self.g = (normal(HEADS, SIZE) for _ in range(4))
        self.beta = normal(HEADS)

    def tokens(self, first, last):
        return {name: getattr(self, name)[:, first:last] for name in ("q", "k", "v", "g", "beta")}


def stack(parts, window):
    """Sequences of different lengths as one padded batch, and the lengths."""
    lengths = np.array([part["beta"].shape[1] for part in parts], np.int32)
    batch = {}
    for name in parts[0]:
        padded = np.zeros((len(parts), window, *parts[0][name].shape[2:]), np.float32)
        for row, part in zip(padded, parts):
            row[:part[name].shape[1]] = part[name][0]
        batch[name] = padded
    return batch, lengths


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slots", type=int, default=6)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)

    problem = redelta.Problem(Hk=HEADS, Hv=HEADS, K=SIZE, V=SIZE, max_batch=options.slots, max_tokens=64,
                              gate="lower_bound", beta="logit", qk_norm="l2")
    weights = {"A_log": rng.standard_normal(HEADS).astype(np.float32),
               "dt_bias": rng.standard_normal((HEADS, SIZE)).astype(np.float32)}
    loop = redelta.StepLoop(problem, slots=options.slots, capacity=WINDOW)
    running, finished = [], []  # finished: (request, its final state)
    proposed = accepted = 0

    for _ in range(options.steps):
        while len(loop.active) < options.slots and rng.random() < 0.5:  # a request joins
            request = Request(rng, loop.join(), int(rng.integers(10, 60)))
            request.done = int(rng.integers(1, 10))  # its prompt
            loop.prefill([request.slot], **request.tokens(0, request.done), **weights)
            running.append(request)
        if not running:
            continue

        draft = [r.tokens(r.done, r.done + int(rng.integers(1, WINDOW + 1))) for r in running]
        batch, lengths = stack(draft, WINDOW)
        loop.verify([r.slot for r in running], **batch, **weights, lengths=lengths)
        counts = [int(rng.integers(0, n + 1)) for n in lengths]  # what sampling would decide
        loop.accept(counts)
        proposed, accepted = proposed + int(lengths.sum()), accepted + sum(counts)

        for request, count in zip(list(running), counts):
            request.done += count
            if request.done >= request.wanted:  # it leaves
                loop.sync()
                finished.append((request, loop.pool.numpy()[request.slot].copy()))
                loop.leave(request.slot)
                running.remove(request)

    loop.sync()
    finished += [(request, loop.pool.numpy()[request.slot].copy()) for request in running]

    plan, different = redelta.Plan(problem), 0
    for request, state in finished:
        plain = redelta.StatePool.for_problem(problem, 1)
        for t in range(request.done):
            plan.decode(**request.tokens(t, t + 1), **weights, state=plain)
        different += plain.numpy()[0].tobytes() != state.tobytes()

    info = loop.plan.info()
    print(f"seed {options.seed}: {len(finished)} sequences, {proposed} tokens proposed, {accepted} accepted")
    print(f"record bytes per token {info['record_bytes_per_token']}, a snapshot would need "
          f"{info['snapshot_bytes_per_token']}")
    if different:
        print(f"{different} final states differ from plain decoding")
        return 1
    print("all final states equal plain decoding bit for bit")
    return 0


if __name__ == "__main__":
    sys.exit(main())
