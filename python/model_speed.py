#!/usr/bin/env python3
"""What patching a model brings: prefill and decode, torch's own code and redelta in turns, in one process.

usage: model_speed.py [--quick]

Two models with random weights in float32, each of two delta-rule layers and one of full attention, with the
proportions of Kimi-Linear (KDA, 8 heads) and Qwen3-Next (gated delta rule, 4 key and 8 value heads), sizes
128 x 128, hidden size 512. Times are of the whole model: the least of several turns. One token of decode has a
filled cache. Needs torch and transformers 5. --quick: 512 tokens and decode on one thread alone.
"""
from __future__ import annotations

import argparse
import os
import time
from typing import Any, Callable

import torch

import redelta
import redelta.transformers

LAYERS = dict(vocab_size=1000, hidden_size=512, intermediate_size=1024, num_hidden_layers=3, num_attention_heads=4,
              max_position_embeddings=8192, pad_token_id=0, bos_token_id=1, eos_token_id=2,
              layer_types=["linear_attention", "linear_attention", "full_attention"])
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "KDA": ("kimi_linear", dict(
        num_key_value_heads=4, moe_intermediate_size=64, num_experts_per_tok=1, num_local_experts=2, n_group=1,
        topk_group=1, mlp_layer_types=["dense"] * 3, kv_lora_rank=128, qk_rope_head_dim=32, qk_nope_head_dim=64,
        v_head_dim=64, linear_head_dim=128, linear_num_heads=8)),
    "GDN": ("qwen3_5_text", dict(
        num_key_value_heads=2, head_dim=128, linear_key_head_dim=128, linear_value_head_dim=128,
        linear_num_key_heads=4, linear_num_value_heads=8)),
}


def make(kind: str) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM
    torch.manual_seed(0)
    family, sizes = MODELS[kind]
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **LAYERS, **sizes)).eval()


def in_turns(call: Callable[[], Any], turns: int) -> tuple[float, float]:
    """Milliseconds of torch's own code and of redelta."""
    least = [float("inf")] * 2
    for _ in range(turns):
        for i in range(2):
            if i:
                redelta.transformers.patch()
            start = time.perf_counter()
            call()
            least[i] = min(least[i], time.perf_counter() - start)
            redelta.transformers.unpatch()
    return least[0] * 1e3, least[1] * 1e3


def decode(model: Any) -> Callable[[], Any]:
    """Eight further tokens, each in a call of its own."""
    cache = model(torch.ones(1, 64, dtype=torch.long), use_cache=True).past_key_values
    token = torch.ones(1, 1, dtype=torch.long)

    def eight() -> None:
        nonlocal cache
        for _ in range(8):
            cache = model(token, past_key_values=cache, use_cache=True).past_key_values

    return eight


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    print(f"torch {torch.__version__}, redelta {redelta.__version__}, "
          f"kernels {redelta.info()['kernels']['rows'][0]}, {os.cpu_count()} CPUs\n")
    print("| milliseconds | threads | torch | redelta | times faster |\n|---|---|---|---|---|")
    for threads in (1,) if quick else (1, 2):
        torch.set_num_threads(threads)
        redelta.set_num_threads(threads)
        for kind in MODELS:
            model = make(kind)
            rows: list[tuple[str, Callable[[], Any], int, int]] = [("decode of one token", decode(model), 8, 8)]
            for tokens in (512,) if quick else (512, 4096):
                ids = torch.ones(1, tokens, dtype=torch.long)
                rows.append((f"prefill of {tokens}", lambda ids=ids: model(ids, use_cache=True),  # type: ignore
                             3 if tokens < 1000 else 1, 1))
            for what, call, turns, calls in rows:
                theirs, ours = (x / calls for x in in_turns(call, turns))
                print(f"| {kind}, {what} | {threads} | {theirs:.1f} | {ours:.1f} | {theirs / ours:.1f} |", flush=True)


if __name__ == "__main__":
    import logging
    import warnings
    warnings.simplefilter("ignore", FutureWarning)
    logging.disable(logging.WARNING)  # transformers says that FLA is not installed
    with torch.inference_mode():
        main()
