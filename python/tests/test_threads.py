"""Threads, the GIL, settings, and fork."""
from __future__ import annotations

import os
import select
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import cases
import redelta
from conftest import Kind, raw
from redelta import _context

NUMPY = Kind("numpy")


def bits(case: dict) -> tuple:
    return tuple(raw(x) for x in redelta.chunk_gated_delta_rule(**case))


@pytest.mark.quick
def test_thread_counts_give_the_same_bits(rng: Any) -> None:
    case = cases.chunk(NUMPY, rng, B=3, T=50, Hv=6)
    results = set()
    for threads in (1, 2, 3, 7, 16, None):
        redelta.set_num_threads(threads)
        assert threads is None or redelta.get_num_threads() == threads
        results.add(bits(case))
    assert len(results) == 1


@pytest.mark.quick
def test_instruction_sets_give_the_same_bits(rng: Any) -> None:
    case = cases.chunk(NUMPY, rng, B=2, T=33, K=72, V=40)
    results = set()
    facts = redelta.info()
    for isa in set(facts["isa_usable"]) & set(facts["isa_built"]):
        redelta.set_isa(isa)
        assert all(name in (isa, "scalar", "scalar_fma", None) for _, name in redelta.info()["kernels"].values())
        results.add(bits(case))
    assert len(results) == 1
    with pytest.raises(ValueError, match="instruction set"):
        redelta.set_isa("mmx")
    missing = set(_context._lib.ISA_BITS) - set(facts["isa_usable"])
    for isa in missing:
        with pytest.raises(redelta.Error):
            redelta.set_isa(isa)
    assert bits(case) in results  # a refused setting leaves the old one


def test_set_num_threads_refuses_nonsense() -> None:
    for bad in (-1, 1025):
        with pytest.raises(ValueError, match="threads"):
            redelta.set_num_threads(bad)
    for bad in ("2", 1.5, True):
        with pytest.raises(TypeError, match="threads"):
            redelta.set_num_threads(bad)
    redelta.set_num_threads(np.int64(2))
    assert redelta.get_num_threads() == 2


def test_concurrent_calls(rng: Any) -> None:
    work = [cases.chunk(NUMPY, rng, B=1 + i % 3, T=20 + i, V=16) for i in range(8)]
    expected = [bits(case) for case in work]
    with ThreadPoolExecutor(8) as threads:
        for _ in range(5):
            assert list(threads.map(bits, work)) == expected


def test_each_thread_has_a_context_and_gives_it_back() -> None:
    handles: list = []

    def run() -> None:
        handles.append(_context.current().handle)

    threads = [threading.Thread(target=run) for _ in range(4)]
    before = threading.active_count()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert _context.current().handle not in handles and None not in handles
    assert threading.active_count() == before
    # Hundreds of short-lived threads: their contexts (and thread pools) must be gone with them.
    for _ in range(200):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert len(os.listdir("/proc/self/task")) < 100


def test_the_gil_is_released(rng: Any) -> None:
    """The main thread turns while another is inside one call; with the GIL held it could not."""
    heads, tokens = (2, 32), 2000
    case = cases.chunk(NUMPY, rng, B=1, Hk=1, Hv=1, T=tokens, K=128, V=128)
    for name in ("query", "key", "value", "beta", "g", "state"):
        case[name] = np.broadcast_to(case[name], (*heads, *case[name].shape[2:]))
    case["actual_seq_lengths"] = np.full(heads[0], tokens, np.int32)
    redelta.set_num_threads(1)
    span: list[float] = []

    def call() -> None:
        span.append(time.perf_counter())
        redelta.chunk_gated_delta_rule(**case)
        span.append(time.perf_counter())

    for _ in range(10):  # a busy machine may not let this thread run during one call
        span.clear()
        ticks = []
        thread = threading.Thread(target=call)
        thread.start()
        while thread.is_alive():
            ticks.append(time.perf_counter())
            time.sleep(0)
        thread.join()
        inside = sum(span[0] < tick < span[1] for tick in ticks)
        if inside > 20:
            return
    pytest.fail(f"only {inside} turns during a call")


def test_a_call_from_a_finaliser_within_a_call(rng: Any) -> None:
    """Re-entrance on one thread: the inner call must not disturb the outer one's structures."""
    case, inner = cases.chunk(NUMPY, rng), cases.chunk(NUMPY, np.random.default_rng(9))
    expected, results = bits(case), []

    class Meddler:
        """Converted to a number when the outer call's structure is already filled."""

        def __float__(self) -> float:
            results.append(bits(inner))
            return case["scale_value"]

    assert bits({**case, "scale_value": Meddler()}) == expected
    assert results == [bits(inner)]


# ------------------------------------------------------------------------------- fork -------------


def in_child(function: Any, seconds: float = 30) -> bytes:
    """What function() returns in a forked child; fails instead of hanging."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, function())
        finally:
            os._exit(0)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], seconds)
    if not ready:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child hangs after fork")
    data = os.read(reader, 1 << 16)
    os.close(reader)
    os.waitpid(child, 0)
    return data


@pytest.mark.quick
def test_fork_with_a_warm_pool(rng: Any) -> None:
    case = cases.chunk(NUMPY, rng, B=3, T=64, Hv=6)
    redelta.set_num_threads(3)
    expected = bits(case)
    import hashlib
    digest = hashlib.sha256(b"".join(expected)).digest()
    for _ in range(3):
        assert in_child(lambda: hashlib.sha256(b"".join(bits(case))).digest()) == digest
    assert bits(case) == expected  # the parent's pool still works

    def child_changes_threads_and_forks_again() -> bytes:
        redelta.set_num_threads(2)  # destroys a context whose threads never were in this process
        first = hashlib.sha256(b"".join(bits(case))).digest()
        return in_child(lambda: hashlib.sha256(b"".join(bits(case))).digest()) + first

    assert in_child(child_changes_threads_and_forks_again) == digest + digest


def test_fork_while_another_thread_computes(rng: Any) -> None:
    case = cases.chunk(NUMPY, rng, B=2, T=200, Hv=4)
    small = cases.chunk(NUMPY, rng)
    expected, stop = raw(redelta.chunk_gated_delta_rule(**small)[0])[:64], threading.Event()

    def busy() -> None:
        while not stop.is_set():
            redelta.chunk_gated_delta_rule(**case)

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(5):
            assert in_child(lambda: raw(redelta.chunk_gated_delta_rule(**small)[0])[:64]) == expected
    finally:
        stop.set()
        thread.join()
