"""A step loop: speculative decoding with continuous batching over a pool of states."""
from __future__ import annotations

from typing import Any, Iterable, Sequence

import numpy as np

from . import _errors
from .core import Plan, Problem, Records
from .pool import StatePool

__all__ = ["StepLoop"]

Array = Any


class StepLoop:
    """Sequences that join, speculate, commit what was accepted, and leave.

    Holds one layer's :class:`StatePool`, a :class:`Plan` and the replay records of the step under way::

        loop = redelta.StepLoop(problem, slots=64, capacity=8)
        a = loop.join()                                     # a zeroed slot
        loop.prefill([a], q, k, v, g, beta)                 # the prompt
        out = loop.verify([a], q, k, v, g, beta)            # up to `capacity` candidates each
        loop.accept([3])                                    # the first three were right
        loop.leave(a)

    ``accept`` does not touch the states at once: when the next ``verify`` has the same sequences, commit
    and verify are one pass over the states; otherwise the commit runs first. ``sync`` forces it. With
    float32 records the states have, bit for bit, the values of decoding the accepted tokens one by one.

    Not safe for use by several threads at once.
    """

    def __init__(self, problem: Problem, slots: int, capacity: int, like: Array | None = None) -> None:
        self.problem, self.capacity = problem, capacity
        self.plan = Plan(problem)
        self.pool = StatePool.for_problem(problem, slots)
        self._like = like
        self._free = list(range(slots - 1, -1, -1))
        self._active: set[int] = set()
        self._spare: dict[int, list[Records]] = {}
        self._step: tuple[tuple[int, ...], Records] | None = None  # verified, not yet accepted
        self._due: tuple[tuple[int, ...], Records, np.ndarray] | None = None  # accepted, not committed

    # ---------------------------------------------------------------- membership ------------------

    @property
    def active(self) -> frozenset[int]:
        """Slots in use."""
        return frozenset(self._active)

    def join(self) -> int:
        """Takes a free slot and zeroes it. ``ValueError`` when the pool is full."""
        if not self._free:
            raise _errors.RedeltaValueError(f"all {len(self.pool)} slots are in use")
        slot = self._free.pop()
        self.pool.reset(slot)
        self._active.add(slot)
        return slot

    def leave(self, slot: int) -> None:
        """Gives a slot back."""
        self._members([slot])
        self.sync()
        if self._step is not None and slot in self._step[0]:
            self._put_back(self._step[1])
            self._step = None
        self._active.remove(slot)
        self._free.append(slot)

    def fork(self, slot: int) -> int:
        """A new sequence with the same state (shared prefixes, beams)."""
        self._members([slot])
        self.sync()
        twin = self.join()
        self.pool.copy(slot, twin)
        return twin

    def _members(self, slots: Iterable[int]) -> tuple[int, ...]:
        members = tuple(int(slot) for slot in slots)
        for slot in members:
            if slot not in self._active:
                raise _errors.RedeltaValueError(f"slot {slot} is not in use")
        return members

    # ---------------------------------------------------------------- records ---------------------

    def _take(self, batch: int) -> Records:
        spare = self._spare.setdefault(batch, [])
        return spare.pop() if spare else self.plan.records(batch, self.capacity, self._like)

    def _put_back(self, records: Records) -> None:
        self._spare.setdefault(records._batch, []).append(records)

    # ---------------------------------------------------------------- steps -----------------------

    def prefill(self, slots: Sequence[int], q: Array, k: Array, v: Array, g: Array | None, beta: Array,
                **more: Any) -> Array:
        """Whole prompts (or parts of them), continuing from each slot's state. ``more`` as in
        :meth:`Plan.prefill`: ``A_log``, ``dt_bias``, ``lengths``, ``cu_seqlens``, ``out``."""
        index = np.array(self._members(slots), np.int32)
        self.sync()
        return self.plan.prefill(q, k, v, g, beta, initial=self.pool, initial_slots=index,
                                 final=self.pool, final_slots=index, **more)

    def decode(self, slots: Sequence[int], q: Array, k: Array, v: Array, g: Array | None, beta: Array,
               **more: Any) -> Array:
        """Plain decoding: the states move on at once. ``more`` as in :meth:`Plan.decode`."""
        index = np.array(self._members(slots), np.int32)
        self.sync()
        return self.plan.decode(q, k, v, g, beta, state=self.pool, slots=index, **more)

    def verify(self, slots: Sequence[int], q: Array, k: Array, v: Array, g: Array | None, beta: Array,
               **more: Any) -> Array:
        """Outputs for the candidate tokens of each sequence; states stay until :meth:`accept`.

        A verify that was never accepted is forgotten. ``more`` as in :meth:`Plan.verify`.
        """
        members = self._members(slots)
        index = np.array(members, np.int32)
        records = self._take(len(members))
        try:
            if self._due is not None and self._due[0] == members:
                _, previous, accepted = self._due
                out = self.plan.commit_verify(previous, accepted, q, k, v, g, beta, state=self.pool,
                                              slots=index, records=records, **more)
                self._due = None
                self._put_back(previous)
            else:
                self.sync()
                out = self.plan.verify(q, k, v, g, beta, state=self.pool, slots=index, records=records,
                                       **more)
        except BaseException:
            self._put_back(records)
            raise
        if self._step is not None:
            self._put_back(self._step[1])
        self._step = (members, records)
        return out

    def accept(self, counts: Sequence[int]) -> None:
        """How many candidates of the last :meth:`verify` each sequence keeps (0..its length)."""
        if self._step is None:
            raise _errors.RedeltaValueError("accept: nothing was verified since the last accept")
        members, records = self._step
        accepted = np.array([int(count) for count in counts], np.int32)
        if accepted.shape != (len(members),):
            raise _errors.RedeltaValueError(
                f"accept: expected {len(members)} counts, got {len(accepted)}", 6)
        lengths = records.lengths
        for slot, count, length in zip(members, accepted, lengths):
            if not 0 <= count <= length:
                raise _errors.RedeltaValueError(
                    f"accept: slot {slot} has {length} candidates, got the count {count}", 20)
        self._step, self._due = None, (members, records, accepted)

    def sync(self) -> None:
        """Commits what was accepted, now."""
        if self._due is not None:
            members, records, accepted = self._due
            self.plan.commit(records, accepted, state=self.pool, slots=np.array(members, np.int32))
            self._due = None
            self._put_back(records)
