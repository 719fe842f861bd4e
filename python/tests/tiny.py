"""Tiny models with random weights, one for each family that the installed transformers has."""
from __future__ import annotations

from typing import Any

import torch

_COMMON = dict(vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
               num_key_value_heads=2, max_position_embeddings=512, pad_token_id=0, bos_token_id=1, eos_token_id=2,
               layer_types=["linear_attention", "linear_attention", "linear_attention", "full_attention"])
_GDN = dict(head_dim=16, linear_key_head_dim=16, linear_value_head_dim=24, linear_num_key_heads=2,
            linear_num_value_heads=4)
_MOE = dict(moe_intermediate_size=32, num_experts_per_tok=2)
_MLA = dict(kv_lora_rank=32, q_lora_rank=None, qk_rope_head_dim=16, qk_nope_head_dim=16, v_head_dim=16, n_group=1,
            topk_group=1, num_local_experts=4, mlp_layer_types=["dense", "sparse", "dense", "dense"],
            num_key_value_heads=4)

#: model type -> what its configuration is given
FAMILIES: dict[str, dict[str, Any]] = {
    "qwen3_next": {**_COMMON, **_GDN, **_MOE, "num_experts": 4, "shared_expert_intermediate_size": 32},
    "qwen3_5_text": {**_COMMON, **_GDN},
    "qwen3_5_moe_text": {**_COMMON, **_GDN, **_MOE, "num_experts": 4, "shared_expert_intermediate_size": 32},
    "olmo_hybrid": {**_COMMON, **_GDN},
    "kimi_linear": {**_COMMON, **_MOE, **_MLA, "linear_head_dim": 16, "linear_num_heads": 4},
    "bailing_hybrid": {**_COMMON, **_MOE, **_MLA, "head_dim": 16},
    "lara_mini": {**_COMMON, **_GDN, **_MOE, "num_experts": 4, "shared_expert_intermediate_size": 32,
                  "sliding_window": 64},
}


def make(family: str, dtype: torch.dtype = torch.float32, seed: int = 0, **changes: Any) -> Any:
    """A model of the family in evaluation mode; the same weights for the same seed, rounded to ``dtype``."""
    from transformers import AutoConfig, AutoModelForCausalLM
    torch.manual_seed(seed)
    config = AutoConfig.for_model(family, **{**FAMILIES[family], **changes})
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()
    with torch.no_grad():  # larger than a fresh model's, so that the layers matter
        for name, p in model.named_parameters():
            if p.dim() > 1 and "embed" not in name:
                p.normal_(0, 2.0 / p.shape[-1] ** 0.5 if p.dim() == 2 else 0.3)
    return model.to(dtype)


def _exact(query: Any, key: Any, value: Any, g: Any = None, beta: Any = None, *args: Any, initial_state: Any = None,
           output_final_state: bool = False, **kwargs: Any) -> tuple:
    """Either rule in float64, written token by token (the models' own code computes in float32)."""
    q, k, v, g, beta = (x.double() for x in (query, key, value, g, beta))
    q, k = (x / (x.pow(2).sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
    q, k = (x.repeat_interleave(v.shape[2] // x.shape[2], 2) for x in (q, k))
    g = g.unsqueeze(-1) if g.dim() == 3 else g
    S = q.new_zeros(*v.shape[:1], v.shape[2], q.shape[3], v.shape[3]) if initial_state is None else initial_state
    out = []
    for t in range(q.shape[1]):
        S = S * g[:, t].exp().unsqueeze(-1)
        u = beta[:, t].unsqueeze(-1) * (v[:, t] - (S * k[:, t].unsqueeze(-1)).sum(-2))
        S = S + k[:, t].unsqueeze(-1) * u.unsqueeze(-2)
        out.append((S * q[:, t].unsqueeze(-1)).sum(-2) * q.shape[-1] ** -0.5)
    return torch.stack(out, 1).to(query.dtype), S if output_final_state else None


def reference(model: Any, ids: Any) -> Any:
    """Logits of the model, its weights as they are, in float64 throughout."""
    import copy
    import sys

    import redelta.transformers
    module = sys.modules[type(model).__module__]
    kept = {name: getattr(module, name) for names in redelta.transformers.MODELS.values() for name in names
            if "causal" not in name and hasattr(module, name)}
    assert len(kept) == 2
    wide = copy.deepcopy(model).double()
    cast = torch.Tensor.float
    try:
        for name in kept:
            setattr(module, name, _exact)
        torch.Tensor.float = torch.Tensor.double  # norms, gates and the router say .float()
        with torch.no_grad():
            return wide(ids).logits
    finally:
        torch.Tensor.float = cast
        for name, original in kept.items():
            setattr(module, name, original)
