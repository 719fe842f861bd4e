"""The step loop against a model: any order of legal and illegal calls, states equal to plain decoding.

The model keeps one state per sequence, moved on token by token by plain decoding, and which candidates
wait for their counts. Every output of the loop is compared with the model's bit for bit, so a wrong state
shows where it is used, without a read of the pool that would itself commit something. A call that the
model calls illegal must raise and change nothing, which the calls after it find out.

``REDELTA_LOOP_EXAMPLES`` sets the number of examples (a fixed choice of 100 by default), and
``REDELTA_LOOP_SHRINK=0`` shows the first failure as it was found.
"""
from __future__ import annotations

import os
from typing import Any, Callable

import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import redelta

SLOTS, CAPACITY, TOKENS = 4, 3, 4
EXAMPLES = int(os.environ.get("REDELTA_LOOP_EXAMPLES", "0"))
PROBLEM = redelta.Problem(Hk=1, Hv=2, K=5, V=3, max_batch=SLOTS, max_tokens=TOKENS, qk_norm="l2")
_WIDTHS = {"q": (1, 5), "k": (1, 5), "v": (2, 3), "g": (2, 5), "beta": (2,)}
_RNG = np.random.default_rng(3)
BANK = {name: _RNG.standard_normal((96, *width)).astype(np.float32) for name, width in _WIDTHS.items()}
BANK["g"] = -np.abs(BANK["g"])
PLAN = redelta.Plan(PROBLEM)

#: What is no slot and no count, though a careless conversion would make one of it.
NOT_INTEGERS = [True, False, 1.9, 0.0, "2", "0", None, [1], np.float32(1), np.bool_(True)]
FAR = [-1, SLOTS, 7, 2**32, 2**32 + 1, 2**32 + 2, -2**32, 2**64 + 1]

chosen = st.lists(st.integers(0, SLOTS - 1), min_size=1, max_size=3)
start, tokens = st.integers(0, 63), st.integers(1, TOKENS)
lists = st.lists(st.integers(0, CAPACITY), min_size=3, max_size=3)
occupied = precondition(lambda self: self.states)
waiting = precondition(lambda self: self.step is not None)


class LoopMachine(RuleBasedStateMachine):
    @initialize(first=start)
    def begin(self, first: int) -> None:
        self.loop = redelta.StepLoop(PROBLEM, SLOTS, CAPACITY)
        self.pool = self.loop.pool  # asked for once, good for ever
        self.states: dict[int, np.ndarray] = {}
        self.step: dict[int, dict] | None = None  # waiting slots -> their candidates
        self.last: list[int] = []  # of the last verify
        self.saved: list[tuple[bytes, np.ndarray]] = []
        for _ in range(SLOTS - 1):
            self.join()
        self.move_on("prefill", [0, 1, 2], first, 2)

    # ---------------------------------------------------------------- helpers ---------------------

    def pick(self, numbers: list[int]) -> list[int]:
        """Some sequences, each once, in any order."""
        active = sorted(self.states)
        return list(dict.fromkeys(active[i % len(active)] for i in numbers))

    def expect(self, legal: bool, call: Callable, *arguments: Any, **named: Any) -> Any:
        if legal:
            return call(*arguments, **named)
        try:
            call(*arguments, **named)
        except redelta.Error:
            return None
        raise AssertionError(f"{call.__name__} accepted {arguments}")

    def activations(self, batch: int, first: int, length: int) -> list[dict]:
        return [{name: bank[first + 5 * row:][:length] for name, bank in BANK.items()} for row in range(batch)]

    @staticmethod
    def stack(rows: list[dict], length: int) -> dict[str, np.ndarray]:
        return {name: np.stack([row[name] for row in rows]) if rows
                else np.zeros((0, length, *_WIDTHS[name]), np.float32) for name in BANK}

    @staticmethod
    def plainly(state: np.ndarray, row: dict, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Outputs and the state after ``count`` tokens, decoded one by one."""
        state, outs = state[None].copy(), np.zeros((0, *_WIDTHS["v"]), np.float32)
        for t in range(count):
            one = {name: array[None, t:t + 1] for name, array in row.items()}
            outs = np.concatenate([outs, PLAN.decode(**one, state=state)[0]])
        return outs, state[0]

    def compare(self, out: np.ndarray, members: list[int], rows: list[dict], counts: list[int]) -> list:
        """The outputs are the model's; returns the states after them."""
        after = []
        for got, slot, row, count in zip(out, members, rows, counts):
            expected, state = self.plainly(self.states[slot], row, count)
            assert got[:count].tobytes() == expected.tobytes(), f"outputs of slot {slot}"
            after.append(state)
        return after

    def idle(self, *members: int) -> bool:
        return self.step is None or self.step.keys().isdisjoint(members)

    # ---------------------------------------------------------------- membership ------------------

    @rule()
    def join(self) -> None:
        slot = self.expect(len(self.states) < SLOTS, self.loop.join)
        if slot is not None:
            assert slot not in self.states and 0 <= slot < SLOTS
            self.states[slot] = np.zeros(PROBLEM.state_shape, np.float32)
        assert self.loop.active == set(self.states)

    @occupied
    @rule(which=chosen)
    def leave(self, which: list) -> None:
        slot = self.pick(which)[0]
        self.loop.leave(slot)
        del self.states[slot]
        if self.step is not None and self.step.pop(slot, None) and not self.step:
            self.step = None
        assert self.loop.active == set(self.states)

    @waiting
    @rule(which=chosen)
    def replace(self, which: list) -> None:
        """A sequence leaves between verify and accept; its slot's next one is none of the step's."""
        if self.states:
            self.leave(which)
            self.join()

    @occupied
    @rule(which=chosen)
    def fork(self, which: list) -> None:
        slot = self.pick(which)[0]
        twin = self.expect(len(self.states) < SLOTS, self.loop.fork, slot)
        if twin is not None:
            assert twin not in self.states
            self.states[twin] = self.states[slot]
        assert self.loop.active == set(self.states)

    # ---------------------------------------------------------------- steps -----------------------

    @occupied
    @rule(verb=st.sampled_from(["prefill", "decode"]), which=chosen, first=start, length=tokens)
    def move_on(self, verb: str, which: list, first: int, length: int) -> None:
        members = self.pick(which)
        rows = self.activations(len(members), first, length)
        out = self.expect(self.idle(*members), getattr(self.loop, verb), members, **self.stack(rows, length))
        if out is not None:
            self.states.update(zip(members, self.compare(out, members, rows, [length] * len(members))))

    @occupied
    @rule(which=chosen, first=start, lengths=lists, again=st.booleans())
    def verify(self, which: list, first: int, lengths: list, again: bool) -> None:
        members = self.pick(which)
        if again and self.last and set(self.last) <= self.states.keys():
            members = list(self.last)  # the same sequences: commit and verify in one pass
        lengths = lengths[:len(members)]
        rows = self.activations(len(members), first, CAPACITY)
        out = self.loop.verify(members, **self.stack(rows, CAPACITY), lengths=np.array(lengths, np.int32))
        self.compare(out, members, rows, lengths)
        self.step = {slot: {"row": row, "length": n} for slot, row, n in zip(members, rows, lengths)}
        self.last = members

    @waiting
    @rule(fractions=st.lists(st.sampled_from([0, 0.5, 1]), min_size=SLOTS, max_size=SLOTS))
    def accept(self, fractions: list) -> None:
        counts = [round(f * step["length"]) for f, step in zip(fractions, self.step.values())]
        self.loop.accept(counts)
        for (slot, step), count in zip(self.step.items(), counts):
            self.states[slot] = self.plainly(self.states[slot], step["row"], count)[1]
        self.step = None

    @occupied
    @rule(which=chosen, first=start, lengths=lists, fractions=st.lists(st.sampled_from([0.5, 1]), min_size=3, max_size=3))
    def speculate(self, which: list, first: int, lengths: list, fractions: list) -> None:
        self.verify(which, first, lengths, True)
        self.accept(fractions)

    @rule()
    def sync(self) -> None:
        self.loop.sync()

    # ---------------------------------------------------------------- illegal calls ---------------

    @occupied
    @rule(verb=st.sampled_from(["prefill", "decode", "verify", "leave", "fork"]), which=chosen, first=start,
          spoil=st.sampled_from([*FAR, *NOT_INTEGERS, "fraction", "twice", "twice", "inactive"]))
    def name_wrongly(self, verb: str, which: list, first: int, spoil: Any) -> None:
        """Slots that are none: out of range, unused, not integers, or named twice."""
        members: list = self.pick(which)
        if spoil == "twice":
            members.append(members[0])
        elif spoil == "inactive":
            members[0] = next((slot for slot in range(SLOTS) if slot not in self.states), SLOTS)
        else:
            members[0] = members[0] + 0.7 if spoil == "fraction" else spoil
        if verb in ("leave", "fork"):
            self.expect(False, getattr(self.loop, verb), members if spoil == "twice" else members[0])
        else:
            rows = self.activations(len(members), first, 2)
            self.expect(False, getattr(self.loop, verb), members, **self.stack(rows, 2))

    @waiting
    @rule(fractions=st.lists(st.sampled_from([0, 0.5, 1]), min_size=SLOTS, max_size=SLOTS), row=st.integers(0, 2),
          spoil=st.sampled_from([*FAR, *NOT_INTEGERS, "fraction", "above", "above", "fewer", "fewer", "more"]))
    def count_wrongly(self, fractions: list, row: int, spoil: Any) -> None:
        """What a conversion would turn into legal counts, and what it would not."""
        counts: list = [round(f * step["length"]) for f, step in zip(fractions, self.step.values())]
        row = row % len(counts)
        if spoil == "fewer":
            del counts[row]
        elif spoil == "more":
            counts.append(0)
        elif spoil == "fraction":
            counts[row] += 0.7
        else:
            counts[row] = list(self.step.values())[row]["length"] + 1 if spoil == "above" else spoil
        self.expect(False, self.loop.accept, counts)

    @precondition(lambda self: self.step is None)
    @rule(counts=st.lists(st.integers(0, 1), max_size=2))
    def accept_nothing(self, counts: list) -> None:
        self.expect(False, self.loop.accept, counts)
        self.expect(False, self.loop.accept, [0] * len(self.last))

    @occupied
    @rule(verb=st.sampled_from(["prefill", "decode", "verify", "verify"]), which=chosen, first=start,
          again=st.booleans(), bad=st.sampled_from(["shape", "long", "batch"]))
    def fail(self, verb: str, which: list, first: int, again: bool, bad: str) -> None:
        """Arrays that the verbs themselves refuse."""
        members = list(self.last) if again and self.last and set(self.last) <= self.states.keys() else self.pick(which)
        length = TOKENS + 1 if bad == "long" else 2  # more than a record holds and a plan takes
        x = self.stack(self.activations(len(members) + (bad == "batch"), first, length), length)
        if bad == "shape":
            x["v"] = x["v"][..., :2]
        self.expect(False, getattr(self.loop, verb), members, **x)

    # ---------------------------------------------------------------- the pool --------------------

    @occupied
    @rule(which=chosen)
    def save(self, which: list) -> None:
        slot = self.pick(which)[0]
        data, fresh = self.pool.save(slot), redelta.StatePool.for_problem(PROBLEM, 1)
        fresh.load(0, data)
        assert fresh.numpy()[0].tobytes() == self.states[slot].tobytes(), f"saved slot {slot}"
        self.saved.append((data, self.states[slot]))

    @precondition(lambda self: self.saved)
    @rule(slot=st.integers(0, SLOTS), which=st.integers(0, 9), damage=st.booleans())
    def load(self, slot: int, which: int, damage: bool) -> None:
        data, state = self.saved[which % len(self.saved)]
        if damage:
            data = data[:-1] + bytes([data[-1] ^ 1])
        legal = not damage and slot < SLOTS and self.idle(slot)
        self.expect(legal, self.pool.load, slot, data)
        if legal and slot in self.states:
            self.states[slot] = state

    @occupied
    @rule(which=chosen, to=st.integers(0, SLOTS), zero=st.booleans())
    def overwrite(self, which: list, to: int, zero: bool) -> None:
        source = self.pick(which)[0]
        legal = to < SLOTS and self.idle(to)
        if zero:
            self.expect(legal, self.pool.reset, to)
        else:
            self.expect(legal, self.pool.copy, source, to)
        if legal and to in self.states:
            self.states[to] = np.zeros_like(self.states[to]) if zero else self.states[source]

    @rule(by=st.sampled_from(["numpy", "dlpack", "convert"]))
    def read(self, by: str) -> None:
        if by == "convert":
            other = redelta.StatePool.for_problem(PROBLEM, SLOTS)
            self.pool.convert_to(other)
            array = other.numpy()
        else:
            array = self.pool.numpy() if by == "numpy" else np.from_dlpack(self.pool)
        for slot, state in self.states.items():
            assert array[slot].tobytes() == state.tobytes(), f"slot {slot} read by {by}"

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.read("numpy")


TestStepLoop = LoopMachine.TestCase
TestStepLoop.settings = settings(
    max_examples=EXAMPLES or 100, stateful_step_count=40, deadline=None, derandomize=not EXAMPLES,
    phases=[Phase.generate, *([] if os.environ.get("REDELTA_LOOP_SHRINK") == "0" else [Phase.shrink])],
    suppress_health_check=list(HealthCheck), database=None, print_blob=True)
