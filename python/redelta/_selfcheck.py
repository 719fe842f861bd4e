"""A self-check in a second, with NumPy alone: against a float64 recurrence, and phase against phase."""
from __future__ import annotations

import numpy as np

import redelta

Check = tuple[str, bool, str]


def _problem(**changes: object) -> redelta.Problem:
    choices: dict = dict(Hk=2, Hv=4, K=64, V=32, max_batch=3, max_tokens=8, qk_norm="l2", beta="logit",
                         gate="softplus")
    choices.update(changes)
    return redelta.Problem(**choices)


def _inputs(rng: np.random.Generator, problem: redelta.Problem, batch: int, tokens: int) -> dict:
    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal((batch, tokens, *shape)).astype(np.float32)

    return {"q": normal(problem.Hk, problem.K), "k": normal(problem.Hk, problem.K),
            "v": normal(problem.Hv, problem.V), "g": normal(problem.Hv, problem.K),
            "beta": normal(problem.Hv),
            "A_log": rng.standard_normal(problem.Hv).astype(np.float32),
            "dt_bias": rng.standard_normal((problem.Hv, problem.K)).astype(np.float32)}


def _oracle(problem: redelta.Problem, x: dict) -> np.ndarray:
    """The recurrence in float64, token by token."""
    q, k, v, g, beta = (x[name].astype(np.float64) for name in ("q", "k", "v", "g", "beta"))
    batch, tokens, out = q.shape[0], q.shape[1], np.zeros(x["v"].shape)
    for b in range(batch):
        for h in range(problem.Hv):
            key_head = h // (problem.Hv // problem.Hk)
            state = np.zeros((problem.V, problem.K))
            for t in range(tokens):
                kt, qt = (r / np.sqrt(r @ r + problem.l2_eps) for r in (k[b, t, key_head], q[b, t, key_head]))
                decay = np.exp(-np.exp(float(x["A_log"][h]))
                               * np.logaddexp(0, g[b, t, h] + x["dt_bias"][h].astype(np.float64)))
                state = state * decay
                u = (v[b, t, h] - state @ kt) / (1 + np.exp(-beta[b, t, h]))
                state += np.outer(u, kt)
                out[b, t, h] = state @ qt / np.sqrt(problem.K)
    return out


def run(seed: int) -> list[Check]:
    """(name, passed, figure) of every check."""
    rng = np.random.default_rng(seed)
    problem = _problem()
    plan = redelta.Plan(problem)
    batch, tokens = 3, 8
    x = _inputs(rng, problem, batch, tokens)
    gates = {"A_log": x["A_log"], "dt_bias": x["dt_bias"]}

    def part(a: int, b: int) -> dict:
        return {name: np.ascontiguousarray(x[name][:, a:b]) for name in ("q", "k", "v", "g", "beta")}

    pool, checks = redelta.StatePool.for_problem(problem, batch), []
    out = plan.prefill(**x, final=pool)
    expected = _oracle(problem, x)
    error = float(np.linalg.norm(out - expected) / np.linalg.norm(expected))
    checks.append(("prefill against the float64 recurrence", error < 2e-6, f"relative error {error:.1e}"))

    decoded = redelta.StatePool.for_problem(problem, batch)
    steps = [plan.decode(**part(t, t + 1), **gates, state=decoded) for t in range(tokens)]
    same = (np.concatenate(steps, 1).tobytes() == out.tobytes()
            and decoded.numpy().tobytes() == pool.numpy().tobytes())
    checks.append(("decoding token by token has the bits of prefill", same, f"{tokens} tokens"))

    spec = redelta.StatePool.for_problem(problem, batch)
    records = plan.records(batch, tokens)
    verified = plan.verify(**x, state=spec, records=records)
    untouched = not spec.numpy().any()
    plan.commit(records, np.full(batch, tokens, np.int32), state=spec)
    same = (verified.tobytes() == out.tobytes() and untouched
            and spec.numpy().tobytes() == pool.numpy().tobytes())
    checks.append(("verify and commit have the bits of prefill", same, f"{batch} sequences"))

    bits = set()
    for isa in set(redelta.info()["isa_usable"]) & set(redelta.info()["isa_built"]):
        for threads in (1, 3):
            redelta.set_isa(isa)
            redelta.set_num_threads(threads)
            bits.add(redelta.Plan(problem).prefill(**x).tobytes())
    redelta.set_isa()
    redelta.set_num_threads(None)
    checks.append(("every instruction set and thread count gives the same bits", bits == {out.tobytes()},
                   f"{len(bits)} result(s)"))
    return checks
