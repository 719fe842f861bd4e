#!/usr/bin/env python3
"""A hybrid language model of transformers, on torch's own code and on redelta: the same tokens, sooner.

The model is tiny and random (nothing is downloaded): a byte-level Qwen3.5 or Kimi-Linear of four layers, three
of them delta-rule layers. It continues a prompt greedily twice: with transformers' own torch code, and patched with
redelta.transformers. Both must write the same bytes. Exits 1 if they do not, 77 (not run) without torch and
transformers 5.
"""
import argparse
import logging
import sys
import time

try:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
except ImportError as missing:
    print(f"not run: {missing}")
    sys.exit(77)

import redelta.transformers

COMMON = dict(vocab_size=256, hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4,
              max_position_embeddings=2048, pad_token_id=0, bos_token_id=0, eos_token_id=0,
              layer_types=["linear_attention"] * 3 + ["full_attention"])
MODELS = {
    "qwen3_5_text": dict(num_key_value_heads=2, head_dim=64, linear_key_head_dim=64, linear_value_head_dim=64,
                         linear_num_key_heads=2, linear_num_value_heads=4),
    "kimi_linear": dict(num_key_value_heads=4, moe_intermediate_size=64, num_experts_per_tok=1, num_local_experts=2,
                        n_group=1, topk_group=1, mlp_layer_types=["dense"] * 4, kv_lora_rank=64, qk_rope_head_dim=32,
                        qk_nope_head_dim=32, v_head_dim=32, linear_head_dim=64, linear_num_heads=4),
}


def make(family, seed):
    torch.manual_seed(seed)
    config = AutoConfig.for_model(family, **COMMON, **MODELS[family])
    return AutoModelForCausalLM.from_config(config).eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default="qwen3_5_text")
    parser.add_argument("--prompt", default="forget before error, forget before error, forget ")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # transformers says that FLA is not installed

    model = make(options.model, options.seed)
    prompt = torch.tensor([list(options.prompt.encode())])

    def generate():
        started = time.perf_counter()
        made = model.generate(prompt, do_sample=False, min_new_tokens=options.tokens,
                              max_new_tokens=options.tokens)
        return made[0, prompt.shape[1]:].tolist(), time.perf_counter() - started

    texts = {"torch": generate()}
    with redelta.transformers.patch():
        print(redelta.transformers.status())
        texts["redelta"] = generate()
    for how, (tokens, seconds) in texts.items():
        print(f"{how:<9}{seconds:6.2f} s  {bytes(tokens)!r}")
    same = all(tokens == texts["torch"][0] for tokens, _ in texts.values())
    print(f"{options.tokens} tokens, both ways: {'the same' if same else 'DIFFERENT'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
