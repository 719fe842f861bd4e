"""Threads, the GIL, settings, and fork."""
from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import cases
import redelta
from conftest import Kind, raw
from redelta import _context, _cpus

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
        beside = ["avx512"] if isa == "amx" else []
        redelta.set_isa(isa, *beside)
        assert all(name in (isa, *beside, "scalar", "scalar_fma", None) for _, name in redelta.info()["kernels"].values())
        results.add(bits(case))
    assert len(results) == 1
    with pytest.raises(ValueError, match="instruction set"):
        redelta.set_isa("mmx")
    with pytest.raises(redelta.Error):
        redelta.set_isa("amx")  # without avx512
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


def os_threads() -> int:
    return len(os.listdir("/proc/self/task"))


def settled(expected: int) -> bool:
    """Whether the threads that were joined are gone for the system, too; it may need a moment."""
    for _ in range(200):
        if os_threads() == expected:
            return True
        time.sleep(0.01)
    return False


def test_callers_share_one_budget_of_threads(rng: Any) -> None:
    """Eight callers at once: one pool between them, and its threads are used by whoever calls."""
    case = cases.chunk(NUMPY, rng, B=3, T=400, Hv=6)
    redelta.set_num_threads(4)
    expected, callers = bits(case), 8
    before, most, together = os_threads(), 0, threading.Barrier(callers)
    results: list = []

    def run() -> None:
        nonlocal most
        together.wait()
        for _ in range(6):
            results.append(bits(case) == expected)
            most = max(most, os_threads())
        together.wait()

    threads = [threading.Thread(target=run) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(results) and len(results) == 6 * callers
    assert before < most <= before + callers  # not one thread of the library beside them
    assert settled(before)

    # A single caller has the whole pool, whichever thread it is.
    handles = set()
    real = _context.Context.call

    def seen(self: Any, function: Any, *arguments: Any) -> None:
        handles.add(self.handle)
        real(self, function, *arguments)

    _context.Context.call = seen
    try:
        for _ in range(200):
            thread = threading.Thread(target=bits, args=(case if not handles else cases.chunk(NUMPY, rng),))
            thread.start()
            thread.join()
    finally:
        _context.Context.call = real
    assert handles == {_context._shared.handle}
    assert _context._lib.lib.rd_context_threads(_context._shared.handle) == 4
    assert settled(before)


def test_a_call_that_finds_the_pool_taken_runs_alone(rng: Any) -> None:
    case = cases.chunk(NUMPY, rng, B=2, T=30)
    redelta.set_num_threads(3)
    expected, plan = bits(case), redelta.Problem(Hk=1, Hv=1, K=4, V=3, max_batch=1, max_tokens=1)
    with _context._lock:
        assert bits(case) == expected
        assert redelta.get_num_threads() == redelta.info()["threads"] == 3
        assert redelta.Plan(plan).info()["threads"] == 1
        with pytest.raises(ValueError, match="actual_seq_lengths"):  # the error is of the right context
            bits({**case, "actual_seq_lengths": np.array([99, 99], np.int32)})
        redelta.set_isa("scalar")
        assert bits(case) == expected
    redelta.set_isa()
    assert bits(case) == expected and redelta.Plan(plan).info()["threads"] == 3


# ------------------------------------------------------------------------------- the default ------


def groups(root: Any, files: dict[str, str]) -> str:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return str(root)


@pytest.mark.quick
def test_the_default_respects_the_environment(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))

    def threads(wanted: str | None) -> int:
        return _cpus.default_threads(str(tmp_path), {} if wanted is None else {"OMP_NUM_THREADS": wanted})

    for wanted, expected in ((None, 16), ("4", 4), (" 3 ", 3), ("2,8", 2), ("99", 16), ("1", 1), ("", 16), ("0", 16),
                             ("-2", 16), ("many", 16), ("1.5", 16), ("9" * 400, 16), ("\u0664", 16)):
        assert threads(wanted) == expected, wanted
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4000)))
    assert threads(None) == 1024


@pytest.mark.quick
def test_the_default_respects_the_quota(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    two, one = "0::/a/b\n", "4:cpu,cpuacct:/a\n5:memory:/z\n0::/\n"
    v1 = "sys/fs/cgroup/cpu/a/cpu.cfs_"
    for number, (files, expected) in enumerate([
            ({}, 16), ({"proc/self/cgroup": two}, 16), ({"proc/self/cgroup": "nonsense"}, 16),
            ({"proc/self/cgroup": two, "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, 16),
            ({"proc/self/cgroup": two, "sys/fs/cgroup/a/b/cpu.max": "250000 100000\n"}, 3),
            ({"proc/self/cgroup": two, "sys/fs/cgroup/a/b/cpu.max": "1000 100000\n"}, 1),
            ({"proc/self/cgroup": two, "sys/fs/cgroup/a/b/cpu.max": "900000 100000",  # a group above is narrower
              "sys/fs/cgroup/a/cpu.max": "200000 100000"}, 2),
            ({"proc/self/cgroup": "0::/../..\n", "sys/fs/cgroup/cpu.max": "500000 100000"}, 5),  # a container
            ({"proc/self/cgroup": one, v1 + "quota_us": "300000", v1 + "period_us": "100000"}, 3),
            ({"proc/self/cgroup": one, v1 + "quota_us": "300000", v1 + "period_us": "0"}, 16),
            ({"proc/self/cgroup": one, v1 + "quota_us": "-1", v1 + "period_us": "100000"}, 16),
            ({"proc/self/cgroup": one, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "150000",
              "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000"}, 2)]):
        root = groups(tmp_path / str(number), files)
        assert _cpus.default_threads(root, {}) == expected, files
        assert _cpus.default_threads(root, {"OMP_NUM_THREADS": "1"}) == 1


def test_the_package_uses_its_default() -> None:
    def ask(code: str, **environment: str) -> list[str]:
        done = subprocess.run([sys.executable, "-c", "import redelta; " + code], capture_output=True, text=True,
                              env={**os.environ, **environment}, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    print_it = "print(redelta.get_num_threads(), redelta.info()['threads'])"
    assert ask(print_it, OMP_NUM_THREADS="1") == ["1", "1"]
    # What the program says goes before what the environment says; None is the default again.
    assert ask(f"redelta.set_num_threads(7); {print_it}; redelta.set_num_threads(None); {print_it}",
               OMP_NUM_THREADS="1") == ["7", "7", "1", "1"]


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
