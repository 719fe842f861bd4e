"""redelta.torch: custom operators under torch.compile, fake tensors and opcheck (torch 2.4 or newer)."""
from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not hasattr(torch.library, "custom_op"):
    pytest.skip(f"not run: torch {torch.__version__} is older than 2.4", allow_module_level=True)

import cases  # noqa: E402
import redelta  # noqa: E402
import redelta.torch as ops  # noqa: E402
from conftest import Kind, raw  # noqa: E402

TORCH = Kind("torch")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def tensors(case: dict) -> dict:
    return {name: x.clone() if isinstance(x, torch.Tensor) else x for name, x in case.items()}


def commit_case(rng: Any) -> dict:
    case = cases.verify(TORCH, rng)
    redelta.fused_recurrent_kda_replayssm(**case)
    return {name: case[name] for name in ("recurrent_state", "replay_u", "replay_k", "replay_decay")} | {
        "num_accepted_tokens": TORCH.make([2, 0], "int32")}


def metadata_case(rng: Any, layout: str = "TND") -> dict:
    case = cases.flash(TORCH, rng, layout=layout, lengths=(3, 4))
    return {"q": case["q"], "v": case["v"], "initial_state": case["initial_state"], "layout_qkv": layout,
            "cu_seqlens": TORCH.make([0, 3, 7], "int32")}


CASES = {
    "chunk_gated_delta_rule": lambda rng: cases.chunk(TORCH, rng, dtype="bfloat16"),
    "fused_recurrent_kda_replayssm": lambda rng: cases.verify(TORCH, rng, layout="TND", lengths=(2, 3)),
    "commit_recurrent_kda_replayssm": commit_case,
    "flash_kda_metadata": metadata_case,
    "flash_kda": lambda rng: cases.flash(TORCH, rng),
    "fused_recurrent_kda": lambda rng: cases.decode(TORCH, rng, slots=8, indices=[7, 1, 2, 0, 4, 5]),
}


def run(function: Any, case: dict) -> tuple:
    """Results and every tensor argument afterwards, as bytes."""
    result = function(**case)
    results = result if isinstance(result, tuple) else () if result is None else (result,)
    return tuple(raw(x) for x in results), tuple(raw(x) for x in case.values() if isinstance(x, torch.Tensor))


@pytest.mark.parametrize("name", CASES)
def test_signatures_are_those_of_the_eager_functions(name: str) -> None:
    def bare(function: Any) -> list:
        return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]
    assert bare(getattr(ops, name)) == bare(getattr(redelta, name))


@pytest.mark.parametrize("name", CASES)
def test_eager_bits(name: str, rng: Any) -> None:
    case = CASES[name](rng)
    assert run(getattr(ops, name), tensors(case)) == run(getattr(redelta, name), tensors(case))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", CASES)
def test_compile_fullgraph(name: str, backend: str, rng: Any) -> None:
    case = CASES[name](rng)
    expected = run(getattr(redelta, name), tensors(case))
    compiled = torch.compile(getattr(ops, name), fullgraph=True, backend=backend)
    with torch.no_grad():
        assert run(compiled, tensors(case)) == expected


def test_compile_a_layer_with_inductor(rng: Any) -> None:
    """Operators between ordinary torch code, mutated tensors used afterwards."""
    case = cases.verify(TORCH, rng, N=3)
    accepted = TORCH.make([2, 3], "int32")

    def layer(library: Any, case: dict) -> Any:
        out = library.fused_recurrent_kda_replayssm(**case)
        library.commit_recurrent_kda_replayssm(case["recurrent_state"], case["replay_u"], case["replay_k"],
                                               case["replay_decay"], accepted)
        return (out.float() * 2).sum(-1), case["recurrent_state"] + 1

    expected = [x.clone() for x in layer(redelta, tensors(case))]
    compiled = torch.compile(lambda case: layer(ops, case), fullgraph=True)
    with torch.no_grad():
        actual = compiled(tensors(case))
    assert torch.equal(actual[1], expected[1])
    assert torch.allclose(actual[0], expected[0])


@pytest.mark.parametrize("name", CASES)
def test_fake_tensors(name: str, rng: Any) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode
    case = CASES[name](rng)
    real = getattr(redelta, name)(**tensors(case))
    with FakeTensorMode(allow_non_fake_inputs=False) as mode:
        fake = getattr(ops, name)(**{n: mode.from_tensor(x) if isinstance(x, torch.Tensor) else x
                                     for n, x in case.items()})
    for r, f in zip(real if isinstance(real, tuple) else (real,), fake if isinstance(fake, tuple) else (fake,)):
        if r is not None:
            assert tuple(r.shape) == tuple(f.shape) and r.dtype == f.dtype and r.stride() == f.stride()


@pytest.mark.parametrize("layout", ["BSND", "BNSD", "TND"])
def test_fake_metadata_sizes(layout: str, rng: Any) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode
    for batch in (1, 3, 7):
        case = cases.flash(TORCH, rng, layout=layout, lengths=(2,) * batch)
        for cu in (None, TORCH.make(np.arange(batch + 1) * 2, "int32")):
            if cu is None and layout == "TND":
                continue
            real = redelta.flash_kda_metadata(case["q"], case["v"], case["initial_state"], layout, cu)
            with FakeTensorMode() as mode:
                f = mode.from_tensor
                fake = ops.flash_kda_metadata(f(case["q"]), f(case["v"]), f(case["initial_state"]), layout,
                                              None if cu is None else f(cu))
            assert fake.shape == real.shape


@pytest.mark.parametrize("name", CASES)
def test_opcheck(name: str, rng: Any) -> None:
    case = CASES[name](rng)
    schema = getattr(torch.ops.redelta, name).default._schema
    arguments = tuple(case.get(a.name, a.default_value) for a in schema.arguments)
    arguments = tuple(-5.0 if a.name == "lower_bound" and x is None else x
                      for a, x in zip(schema.arguments, arguments))
    torch.library.opcheck(getattr(torch.ops.redelta, name).default, arguments)


def test_dynamic_shapes(rng: Any) -> None:
    compiled = torch.compile(ops.chunk_gated_delta_rule, fullgraph=True, backend="aot_eager", dynamic=True)
    for T in (3, 5, 9):
        case = cases.chunk(TORCH, rng, T=T)
        with torch.no_grad():
            assert run(compiled, tensors(case)) == run(redelta.chunk_gated_delta_rule, tensors(case))


def test_grad_is_refused(rng: Any) -> None:
    case = cases.chunk(TORCH, rng)
    case["value"].requires_grad_()
    with pytest.raises(ValueError, match="requires grad"):
        ops.chunk_gated_delta_rule(**case)
    with torch.no_grad():
        ops.chunk_gated_delta_rule(**case)


def test_in_place_writes_are_seen_by_autograd(rng: Any) -> None:
    case = commit_case(rng)
    version = case["recurrent_state"]._version
    redelta.commit_recurrent_kda_replayssm(**case)
    assert case["recurrent_state"]._version > version
