#!/usr/bin/env python3
"""Speculation with draft trees: does it change the result? Not by a bit.

A draft proposes several continuations at once, as Medusa and EAGLE do: a tree of candidate tokens that
share prefixes. The layer (Kimi Delta Attention, one call per step for all sequences) verifies every node
from one state, copying it for no branch; a random path is accepted and committed in the same pass as the
next step's trees. At the end every sequence's accepted tokens are decoded again plainly, token by token:
outputs and final states must be equal bit for bit. Exits 1 if one is not.
"""
import argparse
import sys

import numpy as np

import redelta

HEADS, SIZE, NODES = 4, 128, 13
NAMES = ("q", "k", "v", "g", "beta")


def draft_tree(rng, nodes):
    """Parents of a drawn tree: mostly chains, with branches anywhere; -1 follows the text so far."""
    return np.array([i - 1 if rng.random() < 0.6 else rng.integers(-1, i) for i in range(nodes)], np.int32)


def path_to(parents, node):
    path = []
    while node >= 0:
        path.append(node)
        node = int(parents[node])
    return path[::-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sequences", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)

    problem = redelta.Problem(Hk=HEADS, Hv=HEADS, K=SIZE, V=SIZE, max_batch=options.sequences,
                              max_tokens=NODES, gate="lower_bound", beta="logit", qk_norm="l2")
    weights = {"A_log": rng.standard_normal(HEADS).astype(np.float32),
               "dt_bias": rng.standard_normal((HEADS, SIZE)).astype(np.float32)}
    loop = redelta.StepLoop(problem, slots=options.sequences, capacity=NODES)
    slots = [loop.join() for _ in range(options.sequences)]
    text = {slot: [] for slot in slots}  # accepted tokens: (their inputs, the output that verify gave)
    proposed = 0

    for _ in range(options.steps):
        shape = (len(slots), NODES, HEADS)
        batch = {name: rng.standard_normal(shape if name == "beta" else (*shape, SIZE)).astype(np.float32)
                 for name in NAMES}
        lengths = rng.integers(1, NODES + 1, len(slots)).astype(np.int32)
        parents = np.stack([draft_tree(rng, NODES) for _ in slots])
        out = loop.verify(slots, **batch, **weights, lengths=lengths, parents=parents)
        last = [int(rng.integers(-1, n)) for n in lengths]  # what sampling would decide: a node, or none
        loop.accept([node + 1 for node in last])
        proposed += int(lengths.sum())
        for b, (slot, node) in enumerate(zip(slots, last)):
            for i in path_to(parents[b], node):
                text[slot].append(({name: batch[name][b:b + 1, i:i + 1] for name in NAMES}, out[b, i]))
    loop.sync()

    plan, different = redelta.Plan(problem), 0
    for slot in slots:
        plain = redelta.StatePool.for_problem(problem, 1)
        for token, verified in text[slot]:
            out = plan.decode(**token, **weights, state=plain)
            different += out[0, 0].tobytes() != verified.tobytes()
        different += plain.numpy()[0].tobytes() != loop.pool.numpy()[slot].tobytes()

    info = loop.plan.info()
    print(f"seed {options.seed}: {proposed} nodes proposed, {sum(map(len, text.values()))} tokens accepted")
    print(f"record bytes per node {info['record_bytes_per_token']}, a state per branch would need "
          f"{info['snapshot_bytes_per_token']}")
    if different:
        print(f"{different} outputs or final states differ from plain decoding")
        return 1
    print("all outputs and final states equal plain decoding bit for bit")
    return 0


if __name__ == "__main__":
    sys.exit(main())
