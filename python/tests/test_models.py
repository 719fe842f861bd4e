"""Tiny models of transformers, patched and not, against float64: redelta.transformers."""
from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, Iterator

import pytest

torch = pytest.importorskip("torch", reason="not run: torch is not installed")
pytest.importorskip("transformers", minversion="5.0", reason="not run: transformers 5 is not installed")

import redelta.transformers as rt  # noqa: E402
import tiny  # noqa: E402
from redelta import fla  # noqa: E402
from transformers import AutoConfig  # noqa: E402


def _known(family: str) -> bool:
    try:
        AutoConfig.for_model(family)
    except ValueError:
        return False
    return True


pytestmark = pytest.mark.filterwarnings("default")  # transformers deprecates its own names

FAMILIES = [family for family in tiny.FAMILIES if _known(family)]
TYPES = [torch.float32, torch.bfloat16]
TOKENS = 64


@pytest.fixture(autouse=True)
def _unpatched() -> Iterator[None]:
    yield
    rt.unpatch()


def ids(*shape: int, seed: int = 7) -> Any:
    return torch.randint(3, 96, shape, generator=torch.Generator().manual_seed(seed))


def test_there_are_four_families() -> None:
    assert len(FAMILIES) >= 4, FAMILIES


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_prefill_is_no_further_from_float64_than_torch(family: str, dtype: Any) -> None:
    """Over two models together. In bfloat16 what the rest of the model rounds is some hundred times what
    either rule computes in float32, so that the two may differ by a hundredth part of it."""
    theirs = ours = 0.0
    for seed in range(2):
        model, x = tiny.make(family, dtype, seed), ids(2, 70, seed=seed)
        wanted = tiny.reference(model, x)
        with torch.no_grad():
            theirs += float((model(x).logits.double() - wanted).pow(2).sum())
            with rt.patch():
                ours += float((model(x).logits.double() - wanted).pow(2).sum())
    print(f"{family} {dtype}: error of redelta / of torch {(ours / theirs) ** 0.5:.3f}")
    assert ours <= theirs * (1.0 if dtype is torch.float32 else 1.02)


def generate(model: Any, prompt: Any) -> Any:
    made = model.generate(prompt, max_new_tokens=TOKENS, min_new_tokens=TOKENS, do_sample=False,
                          output_logits=True, return_dict_in_generate=True)
    return made.sequences[0, prompt.shape[1]:], torch.stack(made.logits)[:, 0].double()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_tokens_with_the_cache(family: str, dtype: Any) -> None:
    """The same 64 tokens. In bfloat16 two tokens may be as good as equal: at the first difference, if there
    is one, float64 prefers neither by more than torch's own error there."""
    model, prompt = tiny.make(family, dtype), ids(1, 20)
    tokens, logits = generate(model, prompt)
    with rt.patch():
        same, _ = generate(model, prompt)
    if dtype is torch.float32 or torch.equal(tokens, same):
        assert torch.equal(tokens, same)
        return
    at = int((tokens != same).nonzero()[0])
    wanted = tiny.reference(model, torch.cat([prompt[0], tokens[:at]])[None])[0, -1]
    error = float((logits[at] - wanted).abs().max())
    assert abs(float(wanted[tokens[at]] - wanted[same[at]])) <= 2 * error
    print(f"{family} {dtype}: first difference at token {at}, a tie")


@pytest.mark.parametrize("family", FAMILIES)
def test_cached_decoding_is_prefill(family: str) -> None:
    model, x = tiny.make(family), ids(2, 40)
    with torch.inference_mode(), rt.patch():
        whole = model(x).logits
        made = model(x[:, :33], use_cache=True)
        parts = [made.logits]
        for t in range(33, 40):
            made = model(x[:, t:t + 1], past_key_values=made.past_key_values, use_cache=True)
            parts.append(made.logits)
    assert torch.allclose(torch.cat(parts, 1), whole, rtol=0, atol=2e-3 * float(whole.abs().max()))


@pytest.mark.parametrize("family", FAMILIES)
def test_packed_sequences_do_not_meet(family: str) -> None:
    model, lengths = tiny.make(family), [9, 2, 21]
    parts = [ids(1, n, seed=n) for n in lengths]
    ends = torch.tensor([0, 9, 11, 32], dtype=torch.int32)
    places = torch.cat([torch.arange(n) for n in lengths])[None]
    with torch.no_grad(), rt.patch():
        alone = torch.cat([model(x).logits for x in parts], 1)
        packed = model(torch.cat(parts, 1), position_ids=places, cu_seq_lens_q=ends, cu_seq_lens_k=ends,
                       max_length_q=21, max_length_k=21, use_cache=False).logits
    error = (packed - alone).abs().amax((0, 2)) / alone.abs().max()
    assert float(error.max()) < 1e-4, error


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_run_torch_say_so_once_and_are_torch_s(family: str) -> None:
    model, x = tiny.make(family), ids(1, 24)
    plain = model(x).logits
    plain.square().mean().backward()
    wanted = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    fla._warned.clear()
    with rt.patch(), pytest.warns(RuntimeWarning, match="requires grad") as heard:
        logits = model(x).logits
        model(x)
    assert len([w for w in heard if "redelta" in str(w.message)]) == 1
    assert torch.equal(logits, plain)
    logits.square().mean().backward()
    got = [p.grad for p in model.parameters() if p.grad is not None]
    assert len(got) == len(wanted) and all(map(torch.equal, got, wanted))


def rules(model: Any) -> list:
    module = sys.modules[type(model).__module__]
    return [getattr(module, name) for name in rt.MODELS[type(model).__module__.split(".")[2]]]


@pytest.mark.parametrize("family", FAMILIES)
def test_patch_and_unpatch(family: str) -> None:
    model = tiny.make(family)
    name, before = type(model).__module__.split(".")[2], rules(model)
    with rt.patch() as outer:
        assert rt.status().patched[name] == rt.MODELS[name] and name not in rt.status().missing
        after = rules(model)
        assert not any(a is b for a, b in zip(before, after)) and name in repr(outer)
        with rt.patch():
            assert rules(model) == after
        assert rules(model) == after, "the inner block was not the one that patched"
    assert rules(model) == before and not rt.status().active and str(rt.status()) == "not patched"
    module = sys.modules[type(model).__module__]
    rt.patch()
    setattr(module, rt.MODELS[name][0], before[1])
    assert rt.MODELS[name][0] in rt.status().missing[name]
    rt.unpatch()
    assert rules(model) == [before[1], *before[1:]], "what somebody else put there stays"
    setattr(module, rt.MODELS[name][0], before[0])


LATER = """
import sys, redelta.transformers as rt
rt.patch()
assert not any(name.startswith("transformers.models.qwen3_next") for name in sys.modules)
assert "qwen3_next" in rt.status().waiting
import transformers.models.qwen3_next.modeling_qwen3_next as m
assert "qwen3_next" in rt.status().patched and m.torch_chunk_gated_delta_rule.__module__ == "redelta.transformers"
rt.unpatch()
assert m.torch_chunk_gated_delta_rule.__module__ == m.__name__
import transformers.models.olmo_hybrid.modeling_olmo_hybrid as o
assert o.torch_chunk_gated_delta_rule.__module__ == o.__name__
"""


def test_modules_imported_later() -> None:
    done = subprocess.run([sys.executable, "-c", LATER], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("family", ["qwen3_next", "kimi_linear"])
def test_compile_a_patched_layer(family: str) -> None:
    model = tiny.make(family)
    layer = next(m for n, m in model.named_modules() if type(m).__name__.endswith(("DeltaNet", "DeltaAttention")))
    torch._dynamo.reset()
    with torch.no_grad(), rt.patch(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        for tokens in (12, 17):
            x = torch.randn(2, tokens, 64)
            assert torch.allclose(compiled(x), layer(x), atol=1e-5)


@pytest.mark.parametrize("model", ["qwen3_5_text", "kimi_linear"])
def test_the_example(model: str) -> None:
    script = Path(__file__).resolve().parents[2] / "examples" / "python" / "generate_text.py"
    done = subprocess.run([sys.executable, str(script), "--model", model, "--tokens", "24"], capture_output=True,
                          text=True, timeout=600, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the same" in done.stdout


def test_the_example_of_speculation() -> None:
    script = Path(__file__).resolve().parents[2] / "examples" / "python" / "speculative_generation.py"
    done = subprocess.run([sys.executable, str(script), "--tokens", "48"], capture_output=True, text=True, timeout=600,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "48 tokens, both ways: the same" in done.stdout
    passes = [int(line.split(" passes")[0].split()[-1]) for line in done.stdout.splitlines() if " passes for" in line]
    assert passes[0] == 48 and passes[1] < 40, done.stdout  # drafts were accepted
