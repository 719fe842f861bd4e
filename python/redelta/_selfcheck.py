"""A self-check in a second, with NumPy alone: against a float64 recurrence, and phase against phase."""
from __future__ import annotations

import numpy as np

import redelta

Check = tuple[str, bool, str]

#: The problem of all checks, in words; :func:`run` and :func:`_problem` in numbers.
ABOUT = ("Kimi Delta Attention with a softplus gate, 3 sequences of 8 random tokens, 2 key heads, 4 value "
         "heads, K = 64, V = 32, float32")
_WORST = 2e-6  # relative error that float32 may have here


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
    checks.append(("prefill's outputs are those of the recurrence in float64", error < _WORST,
                   f"relative error {error:.1e}, allowed {_WORST:.0e}"))

    decoded = redelta.StatePool.for_problem(problem, batch)
    steps = [plan.decode(**part(t, t + 1), **gates, state=decoded) for t in range(tokens)]
    same = (np.concatenate(steps, 1).tobytes() == out.tobytes()
            and decoded.numpy().tobytes() == pool.numpy().tobytes())
    checks.append(("decoding token by token has the bits of prefill", same,
                   f"outputs of {tokens} tokens and final states of {batch} sequences"))

    spec = redelta.StatePool.for_problem(problem, batch)
    records = plan.records(batch, tokens)
    verified = plan.verify(**x, state=spec, records=records)
    untouched = not spec.numpy().any()
    plan.commit(records, np.full(batch, tokens, np.int32), state=spec)
    same = (verified.tobytes() == out.tobytes() and untouched
            and spec.numpy().tobytes() == pool.numpy().tobytes())
    checks.append(("verify and commit have the bits of prefill, and verify writes no state", same,
                   f"outputs and final states of {batch} sequences, all {tokens} tokens accepted"))

    bits, facts, counts = set(), redelta.info(), (1, 3)
    names = [name for name in facts["isa_built"] if name in facts["isa_usable"]]
    for isa in names:
        for threads in counts:
            redelta.set_isa(isa, *(["avx512"] if isa == "amx" else []))
            redelta.set_num_threads(threads)
            bits.add(redelta.Plan(problem).prefill(**x).tobytes())
    redelta.set_isa()
    redelta.set_num_threads(None)
    checks.append(("every instruction set and thread count gives the same bits", bits == {out.tobytes()},
                   f"{', '.join(names)}, each with {' and '.join(map(str, counts))} threads: "
                   + ("one and the same output" if len(bits) == 1 else f"{len(bits)} different outputs")))
    return checks
