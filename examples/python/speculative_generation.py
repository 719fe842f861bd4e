#!/usr/bin/env python3
"""Speculative decoding of a hybrid language model of transformers: several tokens a step, the same text.

The model is the tiny random Qwen3.5 of generate_text.py. The draft is looked up in the text so far: what followed
the last two bytes when they stood there before. One pass of the model judges all tokens of the draft. For those
that are refused the convolutions and the softmax attention are rolled back by transformers' own `Cache.crop`; a
delta-rule state has no way back, and needs none: `Plan.verify` leaves it alone and writes small records, from
which `Plan.commit` replays as many tokens as were accepted, in place, to the bits of plain decoding.
Exits 1 if plain decoding writes another text, 77 (not run) without torch and transformers 5.
"""
import argparse
import functools
import logging
import sys
import time

try:
    import torch
    from transformers import DynamicCache
    from transformers.models.qwen3_5 import modeling_qwen3_5 as modeling
except ImportError as missing:
    print(f"not run: {missing}")
    sys.exit(77)

import redelta
import redelta.transformers
from generate_text import make

WINDOW = 8  # tokens of a step: the last one of the text and the draft


@functools.lru_cache(maxsize=None)
def plan_of(Hk, Hv, K, V):
    return redelta.Plan(redelta.Problem(Hk, Hv, K, V, max_batch=1, max_tokens=WINDOW, gate="log", gate_axis="per_head",
                                        qk_norm="l2", state_layout="KV"))


class Verification:
    """Within the block the layers that get several tokens verify them; `accept` commits the first of them."""

    def __enter__(self):
        self.steps = []  # (plan, records, state) of every layer, in the order of the layers
        self.replaced = modeling.torch_chunk_gated_delta_rule
        modeling.torch_chunk_gated_delta_rule = self.rule
        return self

    def __exit__(self, *error):
        modeling.torch_chunk_gated_delta_rule = self.replaced

    def rule(self, query, key, value, g, beta, *, initial_state, **others):
        plan = plan_of(query.shape[2], value.shape[2], query.shape[3], value.shape[3])
        records = plan.records(1, WINDOW, like=query)
        out = plan.verify(query, key, value, g, beta, state=initial_state, records=records)
        self.steps.append((plan, records, initial_state))
        return out, initial_state  # the state that the cache has

    def accept(self, count):
        for plan, records, state in self.steps:
            plan.commit(records, torch.tensor([count], dtype=torch.int32), state=state)


def drafted(text, count):
    """What followed the last two bytes when they were there before; `count` bytes at most."""
    for at in range(len(text) - 3, -1, -1):
        if text[at:at + 2] == text[-2:]:
            return text[at + 2:at + 2 + count]
    return []


def step(model, cache, tokens):
    return model(torch.tensor([tokens]), cache=cache).logits[0].argmax(-1).tolist()


def plainly(model, prompt, count):
    cache = DynamicCache(config=model.config)
    text = prompt + step(model, cache, prompt)[-1:]
    while len(text) < len(prompt) + count:
        text += step(model, cache, text[-1:])
    return text[len(prompt):], count


def speculatively(model, prompt, count):
    cache, passes = DynamicCache(config=model.config), 1
    text = prompt + step(model, cache, prompt)[-1:]
    cache.activate_past_recording()  # whatever is appended from here on can be cropped
    while len(text) < len(prompt) + count:
        draft = drafted(text, min(WINDOW - 1, len(prompt) + count - len(text) - 1))
        with Verification() as verification:
            judged = step(model, cache, text[-1:] + draft)
        right = 0
        while right < len(draft) and draft[right] == judged[right]:
            right += 1
        verification.accept(1 + right)  # the token before the draft, and what was guessed right
        cache.crop(right - len(draft))
        text += draft[:right] + [judged[right]]
        passes += 1
    return text[len(prompt):], passes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompt", default="forget before error, forget before error, forget ")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # transformers says that FLA is not installed
    model, prompt = make("qwen3_5_text", options.seed), list(options.prompt.encode())

    texts = []
    with torch.no_grad(), redelta.transformers.patch():
        for how in (plainly, speculatively):
            started = time.perf_counter()
            text, passes = how(model, prompt, options.tokens)
            print(f"{how.__name__:<14}{time.perf_counter() - started:6.2f} s  {passes} passes for {len(text)} tokens")
            texts.append(text)
    same = texts[0] == texts[1]
    print(f"{bytes(texts[1])!r}\n{options.tokens} tokens, both ways: {'the same' if same else 'DIFFERENT'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
