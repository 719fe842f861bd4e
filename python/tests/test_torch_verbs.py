"""The verbs as torch custom operators: bits, fake shapes, declared mutations, torch.compile; redelta.fla under it."""
from __future__ import annotations

from typing import Any, Callable

import pytest

torch = pytest.importorskip("torch", reason="not run: torch is not installed")
if not hasattr(torch.library, "custom_op"):
    pytest.skip("not run: torch older than 2.4 has no custom operators", allow_module_level=True)

import redelta  # noqa: E402
import redelta.torch as ops  # noqa: E402
from redelta import fla  # noqa: E402


@pytest.fixture(autouse=True)
def _nothing_compiled_before() -> Any:
    """Otherwise one limit of recompilations would count for all tests."""
    torch._dynamo.reset()
    yield


B, T, C, Hk, Hv, K, V = 2, 5, 6, 2, 4, 24, 32
GATES = {"log": {}, "none": dict(gate="none"), "per_head": dict(gate_axis="per_head"),
         "softplus": dict(gate="softplus", beta="logit", beta_times=2, qk_norm="l2", state_layout="KV")}


def world(gate: str) -> tuple[redelta.Problem, dict, Any]:
    torch.manual_seed(3)
    problem = redelta.Problem(Hk, Hv, K, V, **GATES[gate])  # type: ignore[arg-type]
    channels = () if problem.gate_axis == "per_head" else (K,)
    x = dict(q=torch.randn(B, T, Hk, K), k=torch.randn(B, T, Hk, K), v=torch.randn(B, T, Hv, V),
             g=None if gate == "none" else -torch.rand(B, T, Hv, *channels), beta=torch.rand(B, T, Hv))
    x["A_log"] = torch.randn(Hv) if gate == "softplus" else None
    x["dt_bias"] = torch.randn(Hv, K) if gate == "softplus" else None
    return problem, x, torch.randn(3, *problem.state_shape)


def records(problem: redelta.Problem) -> dict[str, Any]:
    axis = (K,) if problem.gate_axis == "per_channel" else ()
    return dict(u=torch.zeros(B, C, Hv, V), keys=torch.zeros(B, C, Hk, K),
                decay=None if problem.gate == "none" else torch.zeros(B, C, Hv, *axis),
                record_lengths=torch.zeros(B, dtype=torch.int32))


SLOTS, ACCEPTED = torch.tensor([2, 0], dtype=torch.int32), torch.tensor([3, 5], dtype=torch.int32)
PARENTS = torch.tensor([[-1, 0, 0, 1, -1], [-1, 0, 1, 2, 3]], dtype=torch.int32)


def speculation(problem: redelta.Problem, x: dict, pool: Any, parents: Any = None) -> tuple:
    choices, made = ops.describe(problem), records(problem)
    if parents is not None:
        made["record_parents"] = torch.zeros(B, C, dtype=torch.int32)
    pool = pool.clone()
    out = ops.verify(**x, state=pool, slots=SLOTS, choices=choices, parents=parents, **made)
    ops.commit(made["u"], made["keys"], made["decay"], made["record_lengths"], ACCEPTED, state=pool, slots=SLOTS,
               choices=choices, record_parents=made.get("record_parents"))
    return out, pool, made["u"], made["record_lengths"]


def decoding(problem: redelta.Problem, x: dict, pool: Any) -> tuple:
    pool, choices = pool.clone(), ops.describe(problem)
    final = torch.zeros(B, *problem.state_shape)
    a = ops.prefill(**x, choices=choices, initial=pool, initial_slots=SLOTS, final=final)
    b = ops.decode(**x, choices=choices, state=pool, slots=SLOTS)
    return a, b, final, pool


def same(a: tuple, b: tuple) -> None:
    assert all(torch.equal(x, y) for x, y in zip(a, b)) and len(a) == len(b)


@pytest.mark.parametrize("gate", GATES)
def test_eager_bits(gate: str) -> None:
    problem, x, pool = world(gate)
    plan = redelta.Plan(problem)
    a, b, final, after = decoding(problem, x, pool)
    expected, state = torch.zeros(B, *problem.state_shape), pool.clone()
    assert torch.equal(a, plan.prefill(**x, initial=pool, initial_slots=SLOTS, final=expected))
    assert torch.equal(b, plan.decode(**x, state=state, slots=SLOTS))
    assert torch.equal(final, expected) and torch.equal(after, state) and torch.equal(after[SLOTS.long()], final)
    for parents in (None, PARENTS):
        made, state = plan.records(B, C, like=pool), pool.clone()
        out = plan.verify(**x, state=state, slots=SLOTS, records=made, parents=parents)
        plan.commit(made, ACCEPTED, state=state, slots=SLOTS)
        same(speculation(problem, x, pool, parents), (out, state, made.u, torch.from_numpy(made.lengths)))
        assert not torch.equal(state, pool)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("gate", GATES)
def test_compile_fullgraph(gate: str, backend: str) -> None:
    problem, x, pool = world(gate)

    def check(function: Callable, *more: Any) -> None:
        compiled = torch.compile(lambda x, p: function(problem, x, p, *more), fullgraph=True, backend=backend)
        with torch.no_grad():
            same(compiled(x, pool), function(problem, x, pool, *more))

    check(decoding)
    check(speculation)
    check(speculation, PARENTS)


def test_opcheck() -> None:
    problem, x, pool = world("softplus")
    choices, made = ops.describe(problem), records(problem)
    lead = (*(x[n] for n in ("q", "k", "v", "g", "beta", "A_log", "dt_bias")), None, None)
    tail, made_parents = (choices, 0.5, -5.0), torch.zeros(B, C, dtype=torch.int32)
    check = torch.library.opcheck
    check(torch.ops.redelta.prefill.default, (*lead, pool, SLOTS, torch.zeros(B, *problem.state_shape), None, *tail))
    check(torch.ops.redelta.prefill.default, (*lead, None, None, None, None, *tail))
    check(torch.ops.redelta.decode.default, (*lead, pool.clone(), SLOTS, None, *tail))
    verify = (*lead, PARENTS, pool, SLOTS, made["u"], made["keys"], made["decay"], made["record_lengths"],
              made_parents, *tail)
    check(torch.ops.redelta.verify.default, verify)
    torch.ops.redelta.verify(*verify)
    check(torch.ops.redelta.commit.default, (made["u"], made["keys"], made["decay"], made["record_lengths"],
                                             made_parents, ACCEPTED, pool.clone(), SLOTS, choices))


def test_refusals_before_any_write() -> None:
    problem, x, pool = world("log")
    made, before, choices = records(problem), pool.clone(), ops.describe(problem)
    bad = {**made, "record_lengths": torch.zeros(B + 1, dtype=torch.int32)}
    with pytest.raises(ValueError, match="record_lengths"):
        ops.verify(**x, state=pool, choices=choices, **bad)
    with pytest.raises(ValueError, match="record_parents"):
        ops.verify(**x, state=pool, choices=choices, parents=PARENTS, **made)
    with pytest.raises(ValueError, match="choices"):
        ops.decode(**x, state=pool, choices="padded log")
    for lengths in ([-1, 0], [0, C + 1]):
        with pytest.raises(ValueError, match="record_lengths"):
            ops.commit(made["u"], made["keys"], made["decay"], torch.tensor(lengths, dtype=torch.int32), ACCEPTED,
                       state=pool, choices=choices)
    with pytest.raises(ValueError, match="accepted"):
        ops.commit(made["u"], made["keys"], made["decay"], made["record_lengths"], ACCEPTED, state=pool,
                   choices=choices)
    assert torch.equal(pool, before) and not made["u"].any()


@pytest.mark.parametrize("name", ["chunk_kda", "fused_recurrent_kda", "chunk_gated_delta_rule",
                                  "fused_recurrent_gated_delta_rule"])
def test_fla_compiles_whole(name: str) -> None:
    run, channels = getattr(fla, name), (K,) if "kda" in name else ()

    def layer(q: Any, k: Any, v: Any, g: Any, beta: Any, state: Any, ends: Any) -> tuple:
        more = {} if ends is None else dict(cu_seqlens=ends)
        out, final = run(q, k, v, g=g, beta=beta, initial_state=state, output_final_state=True,
                         use_qk_l2norm_in_kernel=True, **more)
        return out * 2, final + 1

    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    for tokens, dtype in ((5, torch.float32), (9, torch.float32), (6, torch.bfloat16)):
        x = [torch.randn(1, tokens, h, d).to(dtype) for h, d in ((Hk, K), (Hk, K), (Hv, V))]
        x += [-torch.rand(1, tokens, Hv, *channels), torch.rand(1, tokens, Hv)]
        for ends in (None, torch.tensor([0, 2, tokens])):
            state = torch.randn(1 if ends is None else 2, Hv, K, V)
            with torch.no_grad():
                same(compiled(*x, state, ends), layer(*x, state, ends))
