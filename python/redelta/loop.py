"""A step loop: speculative decoding with continuous batching over a pool of states."""
from __future__ import annotations

from typing import Any, Iterable, Sequence

import numpy as np

from . import _array, _errors
from .core import Plan, Problem, Records, refuse_copy
from ._types import AnyArray, Array
from .pool import StatePool

__all__ = ["StepLoop"]


class _Step:
    """One verify on its way: first its candidates wait for counts, then the counts for a commit."""

    __slots__ = ("members", "index", "records", "left", "accepted")

    def __init__(self, members: tuple[int, ...], index: np.ndarray, records: Records) -> None:
        self.members, self.index, self.records = members, index, records
        self.left: set[int] = set()  # members that left before the counts came: theirs are 0
        self.accepted: np.ndarray | None = None

    @property
    def waiting(self) -> list[int]:
        """Members whose counts are expected, in the order of the verify."""
        return [] if self.accepted is not None else [m for m in self.members if m not in self.left]


class _LoopPool(StatePool):
    """A loop's states as its user sees them: with everything that was accepted."""

    def __init__(self, loop: "StepLoop") -> None:
        self.__dict__.update(loop._states.__dict__)  # the same memory
        self._loop = loop

    def _reading(self) -> None:
        self._loop.sync()

    def _writing(self, slot: int | None) -> None:
        waiting = [] if self._loop._step is None else self._loop._step.waiting
        self._loop._idle("pool", waiting if slot is None else [slot])
        self._loop.sync()


def _loop_view(pool: _LoopPool) -> _array.View:
    pool._reading()
    return pool._view


_array._viewers[_LoopPool] = _loop_view


class StepLoop:
    """Sequences that join, speculate, commit what was accepted, and leave.

    Holds one layer's :class:`StatePool`, a :class:`Plan` and the replay records of the step under way::

        loop = redelta.StepLoop(problem, slots=64, capacity=8)
        a = loop.join()                                     # a zeroed slot
        loop.prefill([a], q, k, v, g, beta)                 # the prompt
        out = loop.verify([a], q, k, v, g, beta)            # up to `capacity` candidates each
        loop.accept([3])                                    # the first three were right
        loop.leave(a)

    There is at most one step. It is *verified* (candidates without counts), then *accepted* (counts
    without a commit), then gone. ``accept`` does not touch the states: when the next ``verify`` has the
    same sequences, commit and verify are one pass over the states. Everything else that reads or writes
    a state commits an accepted step first - ``prefill``, ``decode``, ``fork``, ``leave``, ``sync``,
    another ``verify``, and :attr:`pool` - so that nobody sees a state without its accepted tokens. A
    sequence that is verified can be forked (without its candidates) and can leave (forgetting them);
    ``prefill``, ``decode`` and writes to its slot of :attr:`pool` raise ``ValueError`` until it has its
    count, which may be 0, because its records belong to the state as it was.

    With float32 records the states have, bit for bit, the values of decoding the accepted tokens one by
    one. After any exception (but ``RD_E_EXECUTOR``) the loop is as it was before the call.

    Not safe for use by several threads at once. Cannot be copied or pickled (``TypeError``).
    """

    __reduce_ex__ = refuse_copy("a redelta.StepLoop holds a step under way and", "StepLoop.fork copies a "
                                "sequence, pool.save the bytes of its state")

    def __init__(self, problem: Problem, slots: int, capacity: int, like: Array | None = None) -> None:
        slots, capacity = _errors.integer("slots", slots), _errors.integer("capacity", capacity)
        if capacity < 0:
            raise _errors.RedeltaValueError(f"capacity: must be at least 0, got {capacity}", 6)
        self.problem, self.capacity = problem, capacity
        self.plan = Plan(problem)
        if 0 <= problem.pad_slot < slots:
            raise _errors.RedeltaValueError(
                f"problem: pad_slot {problem.pad_slot} would be one of the loop's slots 0..{slots - 1}")
        self._states = StatePool.for_problem(problem, slots)
        self._like = like
        self._free = list(range(slots - 1, -1, -1))
        self._active: set[int] = set()
        self._spare: dict[int, list[Records]] = {}
        self._step: _Step | None = None

    def __repr__(self) -> str:
        step = self._step
        phase = "idle" if step is None else "verified" if step.accepted is None else "accepted"
        return (f"StepLoop(slots={len(self._states)}, capacity={self.capacity}, "
                f"active={sorted(self._active)}, {phase})")

    @property
    def pool(self) -> StatePool:
        """The states, one per slot, with everything accepted so far: an accepted step is committed before
        the pool is read, saved, copied or handed to a verb. Writing to a slot whose candidates wait for
        their count is a ``ValueError``. Arrays made from it (``numpy()``, ``torch()``) are plain memory:
        call :meth:`sync` before reading one that was made earlier, and write none while a step is on its
        way."""
        return _LoopPool(self)

    # ---------------------------------------------------------------- membership ------------------

    @property
    def active(self) -> frozenset[int]:
        """Slots in use."""
        return frozenset(self._active)

    def join(self) -> int:
        """Takes a free slot and zeroes it; a step under way stays as it is. ``ValueError`` when the pool
        is full."""
        if not self._free:
            raise _errors.RedeltaValueError(f"all {len(self._states)} slots are in use")
        slot = self._free[-1]
        self._states.reset(slot)
        self._active.add(self._free.pop())
        return slot

    def leave(self, slot: int) -> None:
        """Gives a slot back, after committing an accepted step. Candidates that wait for their count are
        forgotten; those of the other sequences stay, and :meth:`accept` then expects theirs only."""
        slot, = self._members([slot])
        self.sync()
        step = self._step
        if step is not None and slot in step.members:
            step.left.add(slot)
            if not step.waiting:
                self._end(step)
        self._active.discard(slot)
        self._free.append(slot)

    def fork(self, slot: int) -> int:
        """A new sequence with the same state (shared prefixes, beams), after committing an accepted step.
        Candidates that wait for their count stay with the first sequence; the new one has none."""
        slot, = self._members([slot])
        self.sync()
        twin = self.join()
        self._states.copy(slot, twin)
        return twin

    def _members(self, slots: Sequence[int]) -> tuple[int, ...]:
        """Slots in use, each once."""
        members = tuple(_errors.integers("slots", slots))
        for slot in members:
            if slot not in self._active:
                raise _errors.RedeltaValueError(f"slots: slot {_errors.shown(slot)} is not in use")
        if len(set(members)) < len(members):
            twice = next(slot for slot in members if members.count(slot) > 1)
            raise _errors.RedeltaValueError(f"slots: slot {twice} is named twice", 19)
        return members

    def _idle(self, name: str, slots: Iterable[int]) -> None:
        """Refuses slots whose candidates wait for their count."""
        waiting = set() if self._step is None else set(self._step.waiting)
        for slot in slots:
            if slot in waiting:
                raise _errors.RedeltaValueError(
                    f"{name}: slot {slot} was verified and its candidates wait for their count; call accept "
                    "(0 keeps the state) or leave first")

    # ---------------------------------------------------------------- records ---------------------

    def _take(self, batch: int) -> Records:
        spare = self._spare.setdefault(batch, [])
        return spare.pop() if spare else self.plan.records(batch, self.capacity, self._like)

    def _put_back(self, records: Records) -> None:
        self._spare.setdefault(records._batch, []).append(records)

    def _end(self, step: _Step) -> None:
        self._step = None
        self._put_back(step.records)

    # ---------------------------------------------------------------- steps -----------------------

    def prefill(self, slots: Sequence[int], q: Array, k: Array, v: AnyArray, g: Array | None, beta: Array, *,
                A_log: Array | None = None, dt_bias: Array | None = None, cu_seqlens: Array | None = None,
                lengths: Array | None = None, out: Array | None = None) -> AnyArray:
        """Whole prompts (or parts of them), continuing from each slot's state; arrays as in
        :meth:`Plan.prefill`. Commits an accepted step first; ``ValueError`` for a slot that is verified.
        """
        index = self._index("prefill", slots)
        return self.plan.prefill(q, k, v, g, beta, initial=self._states, initial_slots=index,
                                 final=self._states, final_slots=index, A_log=A_log, dt_bias=dt_bias,
                                 cu_seqlens=cu_seqlens, lengths=lengths, out=out)

    def decode(self, slots: Sequence[int], q: Array, k: Array, v: AnyArray, g: Array | None, beta: Array, *,
               A_log: Array | None = None, dt_bias: Array | None = None, cu_seqlens: Array | None = None,
               lengths: Array | None = None, out: Array | None = None) -> AnyArray:
        """Plain decoding: the states move on at once; arrays as in :meth:`Plan.decode`. Commits an
        accepted step first; ``ValueError`` for a slot that is verified."""
        index = self._index("decode", slots)
        return self.plan.decode(q, k, v, g, beta, state=self._states, slots=index, A_log=A_log,
                                dt_bias=dt_bias, cu_seqlens=cu_seqlens, lengths=lengths, out=out)

    def _index(self, name: str, slots: Sequence[int]) -> np.ndarray:
        members = self._members(slots)
        self._idle(name, members)
        self.sync()
        return np.array(members, np.int32)

    def verify(self, slots: Sequence[int], q: Array, k: Array, v: AnyArray, g: Array | None, beta: Array, *,
               A_log: Array | None = None, dt_bias: Array | None = None, cu_seqlens: Array | None = None,
               lengths: Array | None = None, parents: Array | None = None,
               out: Array | None = None) -> AnyArray:
        """Outputs for the candidate tokens of each sequence; states stay until :meth:`accept`. Arrays as
        in :meth:`Plan.verify`; with ``parents`` the candidates of a sequence are a draft tree.

        Commits an accepted step, in the same pass when it has the same sequences in the same order. A
        verified step that was never accepted is forgotten, all of it.
        """
        members = self._members(slots)
        index = np.array(members, np.int32)
        before, records = self._step, self._take(len(members))
        more: dict[str, Any] = dict(A_log=A_log, dt_bias=dt_bias, cu_seqlens=cu_seqlens, lengths=lengths,
                                    parents=parents, out=out, state=self._states, slots=index,
                                    records=records)
        try:
            if (before is not None and before.accepted is not None and before.members == members
                    and not before.records.consumed):
                made = self.plan.commit_verify(before.records, before.accepted, q, k, v, g, beta, **more)
            else:
                self.sync()
                before = self._step
                made = self.plan.verify(q, k, v, g, beta, **more)
        except BaseException:
            self._put_back(records)
            raise
        self._step = _Step(members, index, records)
        if before is not None:
            self._put_back(before.records)
        return made

    def accept(self, counts: Sequence[int]) -> None:
        """How many candidates of the last :meth:`verify` each sequence keeps (0..its length), in the
        order of its slots, without those that left since. Of a tree: 1 + the index of the last node that
        is kept, with those on the path to it; 0 keeps none."""
        step = self._step
        if step is None or step.accepted is not None:
            raise _errors.RedeltaValueError("accept: nothing was verified since the last accept")
        given, waiting = _errors.integers("counts", counts), step.waiting
        if len(given) != len(waiting):
            raise _errors.RedeltaValueError(
                f"accept: expected {len(waiting)} counts, got {len(given)}", 6)
        lengths, kept = dict(zip(step.members, step.records.lengths)), dict(zip(waiting, given))
        for slot, count in kept.items():
            if not 0 <= count <= lengths[slot]:
                raise _errors.RedeltaValueError(
                    f"accept: slot {slot} has {lengths[slot]} candidates, got the count {count}", 20)
        step.accepted = np.array([kept.get(slot, 0) for slot in step.members], np.int32)

    def sync(self) -> None:
        """Commits an accepted step, now. A verified one goes on waiting for its counts."""
        step = self._step
        if step is None or step.accepted is None:
            return
        if not step.records.consumed:  # they are when an interrupt came between the commit and us
            self.plan.commit(step.records, step.accepted, state=self._states, slots=step.index)
        self._end(step)
