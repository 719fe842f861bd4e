"""The step loop: plain decoding's bits, and one state machine that loses and mixes nothing."""
from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest

import redelta
from test_core import inputs, part, problem

@pytest.mark.parametrize("choices", [dict(max_batch=8), dict(max_batch=8, gate="log", gate_axis="per_head")])
def test_step_loop_equals_plain_decoding(rng: Any, choices: dict) -> None:
    p = problem(**choices)
    loop = redelta.StepLoop(p, slots=5, capacity=6)
    weights = {n: a for n, a in inputs(rng, p, 1, 1).items() if n in ("A_log", "dt_bias")}
    history: dict[int, list] = {}

    def tokens(B: int, T: int) -> dict[str, Any]:
        return {**inputs(rng, p, B, T), **weights}

    for step in range(60):
        if len(history) < 2 or (len(history) < 5 and rng.random() < 0.3):
            slot = loop.join()
            prompt = tokens(1, int(rng.integers(1, 9)))
            loop.prefill([slot], **prompt)
            history[slot] = [prompt]
        elif rng.random() < 0.15:
            slot = int(rng.choice(list(history)))
            del history[slot]
            loop.leave(slot)
        elif len(history) < 5 and rng.random() < 0.1:
            slot = int(rng.choice(list(history)))
            history[loop.fork(slot)] = list(history[slot])
        members = list(history)
        if rng.random() < 0.3:
            rng.shuffle(members)
        x = tokens(len(members), int(rng.integers(1, 7)))
        lengths = rng.integers(0, x["v"].shape[1] + 1, len(members)).astype(np.int32)
        loop.verify(members, **x, lengths=lengths)
        counts = [int(rng.integers(0, n + 1)) for n in lengths]
        if rng.random() < 0.9:
            loop.accept(counts)
            for i, (slot, count) in enumerate(zip(members, counts)):
                if count:
                    history[slot].append(part(x, 0, count, slice(i, i + 1)))
    loop.sync()
    assert loop.active == set(history)
    plan = redelta.Plan(p)
    for slot, pieces in history.items():
        plain = redelta.StatePool.for_problem(p, 1)
        for piece in pieces:
            for t in range(piece["v"].shape[1]):
                plan.decode(**part(piece, t, t + 1), state=plain)
        assert plain.numpy()[0].tobytes() == loop.pool.numpy()[slot].tobytes()


def test_step_loop_refuses_nonsense(rng: Any) -> None:
    p = problem()
    loop = redelta.StepLoop(p, slots=1, capacity=4)
    with pytest.raises(ValueError, match="not in use"):
        loop.verify([0], **inputs(rng, p, 1, 2))
    slot = loop.join()
    with pytest.raises(ValueError, match="in use"):
        loop.join()
    with pytest.raises(ValueError, match="accept"):
        loop.accept([1])
    loop.verify([slot], **inputs(rng, p, 1, 2))
    for counts in ([3], [-1], [1, 1]):
        with pytest.raises(ValueError, match="accept"):
            loop.accept(counts)
    loop.accept([1])
    loop.leave(slot)
    with pytest.raises(ValueError, match="not in use"):
        loop.leave(slot)


class Plain:
    """A loop beside the plain decoding of one history per sequence."""

    def __init__(self, rng: Any, slots: int = 4) -> None:
        self.rng, self.p = rng, problem(max_batch=8)
        self.loop = redelta.StepLoop(self.p, slots=slots, capacity=4)
        self.plan = redelta.Plan(self.p)
        self.weights = {n: a for n, a in inputs(rng, self.p, 1, 1).items() if n in ("A_log", "dt_bias")}
        self.history: dict[int, list] = {}

    def tokens(self, B: int, T: int) -> dict[str, Any]:
        return {**inputs(self.rng, self.p, B, T), **self.weights}

    def join(self) -> int:
        slot, x = self.loop.join(), self.tokens(1, 2)
        self.loop.prefill([slot], **x)
        self.history[slot] = [x]
        return slot

    def verify(self, slots: list) -> dict[str, Any]:
        x = self.tokens(len(slots), 3)
        self.loop.verify(slots, **x)
        return x

    def took(self, slot: int, x: dict, row: int, count: int) -> None:
        if count:
            self.history[slot].append(part(x, 0, count, slice(row, row + 1)))

    def state(self, slot: int) -> bytes:
        plain = redelta.StatePool.for_problem(self.p, 1)
        for piece in self.history[slot]:
            self.plan.decode(**piece, state=plain)
        return plain.numpy()[0].tobytes()

    def check(self) -> None:
        array = self.loop.pool.numpy()
        for slot in self.history:
            assert array[slot].tobytes() == self.state(slot), f"slot {slot}"


@pytest.mark.quick
@pytest.mark.parametrize("verb", ["prefill", "decode"])
def test_a_verified_sequence_does_not_move_on_without_its_count(rng: Any, verb: str) -> None:
    s = Plain(rng)
    a, b = s.join(), s.join()
    x, y = s.verify([a]), s.tokens(1, 1)
    with pytest.raises(ValueError, match=f"{verb}: slot {a} was verified"):
        getattr(s.loop, verb)([a], **y)
    with pytest.raises(ValueError, match="was verified"):
        getattr(s.loop, verb)([b, a], **s.tokens(2, 1))
    getattr(s.loop, verb)([b], **y)  # another one may
    s.took(b, y, 0, 1)
    s.loop.accept([2])
    s.took(a, x, 0, 2)
    getattr(s.loop, verb)([a], **y)
    s.took(a, y, 0, 1)
    s.check()


@pytest.mark.quick
def test_a_slot_named_twice(rng: Any) -> None:
    s = Plain(rng)
    a, b = s.join(), s.join()
    for verb in ("prefill", "decode", "verify"):
        with pytest.raises(ValueError, match=f"slot {a} is named twice") as caught:
            getattr(s.loop, verb)([a, b, a], **s.tokens(3, 1))
        assert caught.value.status_name == "RD_E_SLOT_DUPLICATE"
    x = s.verify([a, b])
    s.loop.accept([1, 2])
    s.took(a, x, 0, 1)
    s.took(b, x, 1, 2)
    s.check()


@pytest.mark.quick
def test_the_pool_holds_what_was_accepted(rng: Any) -> None:
    s = Plain(rng)
    a, b = s.join(), s.join()
    other = redelta.StatePool.for_problem(s.p, len(s.loop.pool))

    def saved(pool: Any) -> bytes:
        fresh = redelta.StatePool.for_problem(s.p, 1)
        fresh.load(0, pool.save(a))
        return fresh.numpy()[0].tobytes()

    def converted(pool: Any) -> bytes:
        pool.convert_to(other)
        return other.numpy()[a].tobytes()

    def materialized(pool: Any) -> bytes:
        records = s.plan.records(1, 1)
        s.plan.verify(**s.tokens(1, 1), state=np.zeros((1, *s.p.state_shape), np.float32), records=records)
        s.plan.materialize(records, np.array([0], np.int32), source=pool, to=other,
                           source_slots=np.array([a], np.int32), to_slots=np.array([b], np.int32))
        return other.numpy()[b].tobytes()

    def copied(pool: Any) -> bytes:
        twin = s.loop.join()
        pool.copy(a, twin)
        found = pool.numpy()[twin].tobytes()
        s.loop.leave(twin)
        return found

    reads = [saved, converted, materialized, copied, lambda pool: pool.numpy()[a].tobytes(),
             lambda pool: np.from_dlpack(pool)[a].tobytes()]
    if "torch" in sys.modules:
        reads.append(lambda pool: pool.torch()[a].numpy().tobytes())
    for read in reads:
        for early in (True, False):  # the pool asked for before and after the accept
            x, pool = s.verify([a]), s.loop.pool if early else None
            s.loop.accept([2])
            s.took(a, x, 0, 2)
            assert read(pool or s.loop.pool) == s.state(a)
    s.check()


@pytest.mark.quick
def test_a_verified_slot_of_the_pool_is_not_written(rng: Any) -> None:
    s = Plain(rng)
    a, b = s.join(), s.join()
    pool, data = s.loop.pool, s.loop.pool.save(b)
    other = redelta.StatePool.for_problem(s.p, len(pool))
    x = s.verify([a])
    for write in (lambda: pool.load(a, data), lambda: pool.reset(a), lambda: pool.copy(b, a),
                  lambda: other.convert_to(pool)):
        with pytest.raises(ValueError, match=f"pool: slot {a} was verified"):
            write()
    assert pool.save(a) and pool.save(b) == data  # reading is fine: the state without the candidates
    pool.copy(a, b)
    s.history[b] = list(s.history[a])
    s.loop.accept([3])
    s.took(a, x, 0, 3)
    s.check()
    x = s.verify([a])  # accepted, then written: the commit comes first
    s.loop.accept([3])
    pool.load(a, data)
    assert pool.save(a) == data


@pytest.mark.quick
def test_leaving_takes_nobody_along(rng: Any) -> None:
    s = Plain(rng)
    a, b, c = s.join(), s.join(), s.join()
    x = s.verify([a, b, c])
    s.loop.leave(b)
    del s.history[b]
    assert s.loop.join() == b  # the slot's next sequence has nothing to do with the step
    s.history[b] = []
    y = s.tokens(1, 2)
    s.loop.prefill([b], **y)
    s.took(b, y, 0, 2)
    with pytest.raises(ValueError, match="expected 2 counts, got 3"):
        s.loop.accept([1, 1, 1])
    s.loop.accept([3, 1])
    s.took(a, x, 0, 3)
    s.took(c, x, 2, 1)
    x = s.verify([a, b, c])  # the same slots: commit and verify in one pass
    s.loop.accept([1, 2, 3])
    for row, slot in enumerate((a, b, c)):
        s.took(slot, x, row, row + 1)
    s.check()
    s.verify([a])
    s.loop.leave(a)
    with pytest.raises(ValueError, match="nothing was verified"):
        s.loop.accept([])


@pytest.mark.quick
def test_a_fork_of_a_verified_sequence_has_no_candidates(rng: Any) -> None:
    s = Plain(rng)
    a = s.join()
    x = s.verify([a])
    twin = s.loop.fork(a)
    s.history[twin] = list(s.history[a])
    s.loop.accept([3])
    s.took(a, x, 0, 3)
    s.check()


@pytest.mark.quick
def test_a_loop_is_left_as_it_was(rng: Any) -> None:
    """Failures after a verify and after an accept: the step is still there."""
    s = Plain(rng)
    a, b = s.join(), s.join()
    x, bad = s.verify([a, b]), {**s.tokens(2, 5)}  # five candidates, room for four
    with pytest.raises(ValueError):
        s.loop.verify([a, b], **bad)
    with pytest.raises(TypeError):
        s.loop.verify([a, b], **s.tokens(2, 1), write_slots=None)
    s.loop.accept([1, 2])
    for slots in ([a, b], [b, a], [a]):
        with pytest.raises(ValueError):
            s.loop.verify(slots, **bad)
    s.took(a, x, 0, 1)
    s.took(b, x, 1, 2)
    s.check()
    with pytest.raises(ValueError, match="pad_slot 2"):
        redelta.StepLoop(problem(pad_slot=2), slots=3, capacity=1)
    redelta.StepLoop(problem(pad_slot=3), slots=3, capacity=1)


@pytest.mark.quick
def test_an_interrupt_after_the_commit_does_not_stop_the_loop(rng: Any) -> None:
    s = Plain(rng)
    a = s.join()
    x = s.verify([a])
    s.loop.accept([2])
    s.took(a, x, 0, 2)
    end = s.loop._end
    s.loop._end = None  # "interrupted" between the commit and the bookkeeping
    with pytest.raises(TypeError):
        s.loop.sync()
    s.loop._end = end
    s.check()
    x = s.verify([a])
    s.loop.accept([1])
    s.took(a, x, 0, 1)
    s.check()


@pytest.mark.quick
def test_a_pool_outlives_its_loop(rng: Any) -> None:
    s = Plain(rng)
    a = s.join()
    x, pool = s.verify([a]), s.loop.pool
    s.loop.accept([2])
    s.took(a, x, 0, 2)
    expected = s.state(a)
    del s
    gc.collect()
    assert pool.numpy()[a].tobytes() == expected
