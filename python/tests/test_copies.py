"""Copying and pickling: every public object survives or refuses with a sentence; none crashes."""
from __future__ import annotations

import copy
import gc
import multiprocessing
import pickle
import threading
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Callable

import numpy as np
import pytest

import redelta
from redelta import _context

PROBLEM = redelta.Problem(Hk=1, Hv=2, K=8, V=4, max_batch=3, max_tokens=4, gate="none")
COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy, "deepcopy": copy.deepcopy,
    **{f"pickle{n}": lambda x, n=n: pickle.loads(pickle.dumps(x, n))
       for n in range(pickle.HIGHEST_PROTOCOL + 1)}}


@pytest.fixture(params=COPIES.values(), ids=COPIES.keys())
def copied(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    return request.param


def tokens(batch: int, length: int) -> dict[str, Any]:
    rng = np.random.default_rng(5)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal((batch, length, *shape)).astype(np.float32)

    return {"q": normal(1, 8), "k": normal(1, 8), "v": normal(2, 4), "g": None, "beta": normal(2)}


def outputs(plan: redelta.Plan) -> bytes:
    return plan.prefill(**tokens(2, 3)).tobytes()


def pool(dtype: str = "float32", layout: str = "VK") -> redelta.StatePool:
    """A pool of 3 slots with distinct bytes (some of them NaNs that a conversion would change)."""
    made = redelta.StatePool(3, 2, 5, 8, layout=layout, dtype=dtype)
    array = made.numpy()
    bits = np.random.default_rng(7).integers(0, 256, array.nbytes, np.uint8).view(array.dtype)
    array[...] = bits.reshape(array.shape)
    return made


def refused(function: Callable[[Any], Any], thing: Any) -> None:
    with pytest.raises(TypeError, match="cannot be copied or pickled; .+") as caught:
        function(thing)
    assert isinstance(caught.value, redelta.Error)


@pytest.mark.quick
def test_problem(copied: Any) -> None:
    assert copied(PROBLEM) == PROBLEM


@pytest.mark.quick
def test_plan(copied: Any) -> None:
    plan = redelta.Plan(PROBLEM)
    expected = outputs(plan)
    twin = copied(plan)
    assert twin.problem == PROBLEM and outputs(twin) == expected
    del plan
    gc.collect()
    assert outputs(twin) == expected
    del twin
    gc.collect()

    # By whatever way two objects came to hold one handle: it is destroyed once, after both.
    plan, other = redelta.Plan(PROBLEM), redelta.Plan.__new__(redelta.Plan)
    other.__dict__.update(plan.__dict__)
    del plan
    gc.collect()
    assert outputs(other) == expected


@pytest.mark.quick
@pytest.mark.parametrize("dtype, layout", [("float32", "VK"), ("float16", "KV")])
def test_state_pool(copied: Any, dtype: str, layout: str) -> None:
    original = pool(dtype, layout)
    before = original.numpy().tobytes()
    twin = copied(original)
    assert (twin.shape, twin.layout, twin.dtype) == (original.shape, layout, dtype)
    assert twin.numpy().tobytes() == before
    twin.reset(1)
    assert original.numpy().tobytes() == before != twin.numpy().tobytes()
    del original
    gc.collect()
    assert twin.numpy()[0].tobytes() == before[:len(before) // 3]


@pytest.mark.quick
def test_records_and_step_loop_refuse(copied: Any) -> None:
    plan = redelta.Plan(PROBLEM)
    records, state = plan.records(2, 3), redelta.StatePool.for_problem(PROBLEM, 2)
    plan.verify(**tokens(2, 3), state=state, records=records)
    refused(copied, records)
    plan.commit(records, np.array([1, 2], np.int32), state=state)  # no worse for it
    loop = redelta.StepLoop(PROBLEM, slots=2, capacity=3)
    refused(copied, loop)
    assert loop.join() == 0
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        copied(_context._shared)
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        copied(plan._owner)


@pytest.mark.quick
def test_errors_and_functions(copied: Any) -> None:
    with pytest.raises(ValueError) as caught:
        pool().reset(3)
    twin = copied(caught.value)
    assert type(twin) is type(caught.value) and str(twin) == str(caught.value)
    assert (twin.status, twin.status_name) == (caught.value.status, "RD_E_SLOT_RANGE")
    # Every public name is covered here or above; functions and classes travel by their names.
    for name in redelta.__all__:
        assert copied(getattr(redelta, name)) is getattr(redelta, name)


# ------------------------------------------------------------------------------- other processes --


def _work(plan: redelta.Plan, states: redelta.StatePool, problem: redelta.Problem) -> Any:
    states.copy(0, 1)
    return outputs(plan), states, problem, plan


def _fail() -> None:
    redelta.Plan(redelta.Problem(Hk=1, Hv=1, K=0, V=4, max_batch=1, max_tokens=1))


def _records() -> redelta.Records:
    return redelta.Plan(PROBLEM).records(1, 1)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_through_a_process_pool(method: str) -> None:
    plan, states = redelta.Plan(PROBLEM), pool()
    expected, before = outputs(plan), states.numpy().copy()
    assert threading.active_count() == 1 or method == "spawn"
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as workers:
        results = [workers.submit(_work, plan, states, PROBLEM) for _ in range(4)]
        for result in results:
            out, there, problem, twin = result.result(60)
            assert out == expected == outputs(twin) and problem == PROBLEM
            assert there.numpy()[[0, 2]].tobytes() == before[[0, 2]].tobytes()
            assert there.numpy()[1].tobytes() == before[0].tobytes()
        with pytest.raises(redelta.Error, match="K") as caught:
            workers.submit(_fail).result(60)
        assert caught.value.status_name
        with pytest.raises(Exception, match="cannot be copied or pickled"):
            workers.submit(_records).result(60)
        assert workers.submit(outputs, plan).result(60) == expected  # the pool of processes lives on
    assert states.numpy().tobytes() == before.tobytes()


@pytest.mark.quick
def test_reprs_say_what_it_is() -> None:
    plan = redelta.Plan(PROBLEM)
    assert repr(plan).startswith("Plan(Problem(Hk=1, Hv=2, K=8, V=4,") and "threads=" in repr(plan)
    records, state = plan.records(2, 3), redelta.StatePool.for_problem(PROBLEM, 2)
    assert repr(records) == "Records(batch=2, capacity=3, unused)"
    plan.verify(**tokens(2, 3), state=state, records=records)
    assert repr(records) == "Records(batch=2, capacity=3, lengths=[3, 3])"
    plan.commit(records, np.array([1, 2], np.int32), state=state)
    assert repr(records) == "Records(batch=2, capacity=3, consumed)"
    assert repr(state) == "StatePool(shape=(2, 2, 4, 8), layout='VK', dtype='float32')"
    loop = redelta.StepLoop(PROBLEM, slots=2, capacity=3)
    slot = loop.join()
    assert repr(loop) == "StepLoop(slots=2, capacity=3, active=[0], idle)"
    loop.verify([slot], **tokens(1, 3))
    assert repr(loop).endswith("verified)")
    loop.accept([2])
    assert repr(loop).endswith("accepted)") and repr(loop.pool) == repr(state)
