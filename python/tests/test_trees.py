"""Draft trees: every node has the bits of decoding its path, through plans and through the step loop."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import redelta
from test_core import inputs, part, problem


def tree(rng: Any, nodes: int) -> np.ndarray:
    return np.array([i - 1 if rng.random() < 0.4 else rng.integers(-1, i) for i in range(nodes)], np.int32)


def path(parents: np.ndarray, node: int) -> list[int]:
    found = []
    while node >= 0:
        found.append(node)
        node = int(parents[node])
    return found[::-1]


def decoded(plan: redelta.Plan, x: dict, nodes: list[int], state: np.ndarray) -> Any:
    """The last output of decoding `nodes` of the one sequence in x onto `state`, in place."""
    out = None
    for i in nodes:
        out = plan.decode(**part(x, i, i + 1), state=state)
    return out


@pytest.mark.quick
@pytest.mark.parametrize("choices", [dict(), dict(gate="log", gate_axis="per_head"), dict(layout="packed")])
def test_every_node_is_its_path(rng: Any, choices: dict) -> None:
    p = problem(**choices)
    plan, plain = redelta.Plan(p), redelta.Plan(problem(**{**choices, "layout": "padded"}))
    for nodes in (1, 2, 9, 13):
        x, parents = inputs(rng, p, 1, nodes), tree(rng, nodes)
        if choices.get("layout") == "packed":
            rows = {n: a for n, a in x.items() if n not in ("cu_seqlens",)}
            x = {**rows, "cu_seqlens": np.array([0, nodes], np.int32)}
            y = {n: a if n in ("A_log", "dt_bias") or a is None else a[None] for n, a in rows.items()}
            given = parents
        else:
            y, given = x, parents[None]
        start = rng.standard_normal((1, *p.state_shape)).astype(np.float32)
        records, kept = plan.records(1, nodes + 2), start.copy()
        out = plan.verify(**x, state=start, records=records, parents=given)
        assert start.tobytes() == kept.tobytes()
        assert records.parents[0, :nodes].tolist() == parents.tolist()
        out = out if choices.get("layout") == "packed" else out[0]
        for node in range(nodes):
            state, to = start.copy(), np.zeros_like(start)
            last = decoded(plain, y, path(parents, node), state)
            assert last[0, 0].tobytes() == out[node].tobytes()
            plan.materialize(records, np.array([node + 1], np.int32), source=start, to=to)
            assert to.tobytes() == state.tobytes()
        accepted = np.array([nodes], np.int32)
        following = plan.records(1, nodes)
        again = plan.commit_verify(records, accepted, **x, state=start, records=following, parents=given)
        state = kept.copy()
        decoded(plain, y, path(parents, nodes - 1), state)
        assert start.tobytes() == state.tobytes()
        first = again[0] if choices.get("layout") == "packed" else again[0, 0]
        assert decoded(plain, y, [0], state)[0, 0].tobytes() == first.tobytes()
        plan.commit(following, np.array([0], np.int32), state=start)


@pytest.mark.quick
def test_a_step_loop_accepts_nodes(rng: Any) -> None:
    p = problem(max_batch=8)
    loop, plan = redelta.StepLoop(p, slots=4, capacity=7), redelta.Plan(p)
    weights = {n: a for n, a in inputs(rng, p, 1, 1).items() if n in ("A_log", "dt_bias")}
    history: dict[int, list] = {loop.join(): [] for _ in range(3)}
    for step in range(40):
        if rng.random() < 0.2 and len(history) < 4:
            slot = int(rng.choice(list(history)))
            history[loop.fork(slot)] = list(history[slot])
        elif rng.random() < 0.15 and len(history) > 1:
            slot = int(rng.choice(list(history)))
            loop.leave(slot)
            del history[slot]
        members = list(history)
        x = {**inputs(rng, p, len(members), 7), **weights}
        lengths = rng.integers(0, 8, len(members)).astype(np.int32)
        trees = np.stack([tree(rng, 7) for _ in members])
        chains = rng.random() < 0.3  # steps of chains in between
        loop.verify(members, **x, lengths=lengths, parents=None if chains else trees)
        counts = [int(rng.integers(0, n + 1)) for n in lengths]
        loop.accept(counts)
        for b, (slot, count) in enumerate(zip(members, counts)):
            nodes = range(count) if chains else path(trees[b], count - 1)
            history[slot] += [part(x, i, i + 1, slice(b, b + 1)) for i in nodes]
    for slot, tokens in history.items():
        plain = redelta.StatePool.for_problem(p, 1)
        for token in tokens:
            plan.decode(**token, state=plain)
        assert plain.numpy()[0].tobytes() == loop.pool.numpy()[slot].tobytes()


@pytest.mark.quick
def test_trees_that_are_none(rng: Any) -> None:
    p = problem()
    plan, x = redelta.Plan(p), inputs(rng, p, 2, 4)
    state = np.zeros((2, *p.state_shape), np.float32)
    records = plan.records(2, 4)

    def verify(parents: Any) -> None:
        plan.verify(**x, state=state, records=records, parents=parents)

    good = np.tile(np.array([-1, 0, 0, 1], np.int32), (2, 1))
    verify(good)
    for node, parent in ((0, 0), (2, 2), (1, 3), (3, -2)):
        bad = good.copy()
        bad[1, node] = parent
        with pytest.raises(ValueError, match=f"seq.parents: sequence 1, node {node}: expected") as caught:
            verify(bad)
        assert caught.value.status_name == "RD_E_TREE"
    with pytest.raises(TypeError, match="parents"):
        verify(good.astype(np.int64))
    with pytest.raises(ValueError, match="parents"):
        verify(good[:, :3])
    for verb in (plan.prefill, plan.decode):
        with pytest.raises(TypeError):
            verb(**x, parents=good)
    loop = redelta.StepLoop(p, slots=2, capacity=4)
    slots = [loop.join(), loop.join()]
    with pytest.raises(ValueError, match="RD_E_TREE|seq.parents"):
        loop.verify(slots, **x, parents=np.full((2, 4), 5, np.int32))
    with pytest.raises(ValueError, match="nothing was verified"):
        loop.accept([0, 0])
