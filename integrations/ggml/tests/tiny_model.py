"""A hybrid model of the Qwen3.5 kind, tiny and random, as a GGUF file. SPDX-License-Identifier: Apache-2.0"""

import gguf
import numpy as np

VOCABULARY, EMBEDDING, LAYERS, FEED_FORWARD = 96, 128, 8, 256
HEADS, KV_HEADS, HEAD_SIZE = 4, 2, 32  # of every fourth layer, softmax attention
KEY_HEADS, VALUE_HEADS, STATE_SIZE, KERNEL = 2, 4, 32, 4  # of the others, gated delta rule


def write(path, seed=1):
    rng = np.random.default_rng(seed)
    file = gguf.GGUFWriter(path, "qwen35")
    file.add_vocab_size(VOCABULARY)
    file.add_tokenizer_model("none")
    file.add_context_length(4096)
    file.add_embedding_length(EMBEDDING)
    file.add_block_count(LAYERS)
    file.add_feed_forward_length(FEED_FORWARD)
    file.add_head_count(HEADS)
    file.add_head_count_kv(KV_HEADS)
    file.add_key_length(HEAD_SIZE)
    file.add_value_length(HEAD_SIZE)
    file.add_layer_norm_rms_eps(1e-6)
    file.add_rope_dimension_count(HEAD_SIZE // 2)
    file.add_rope_dimension_sections([4, 2, 2, 0])
    file.add_rope_freq_base(1e4)
    file.add_full_attention_interval(4)
    file.add_ssm_conv_kernel(KERNEL)
    file.add_ssm_state_size(STATE_SIZE)
    file.add_ssm_group_count(KEY_HEADS)
    file.add_ssm_time_step_rank(VALUE_HEADS)
    file.add_ssm_inner_size(VALUE_HEADS * STATE_SIZE)

    def matrix(name, outputs, inputs, size=1.0):
        file.add_tensor(name, (size / np.sqrt(inputs) * rng.standard_normal((outputs, inputs))).astype(np.float32))

    def vector(name, values):
        file.add_tensor(name, np.asarray(values, np.float32))

    def norm(name, size):
        vector(name, 1 + 0.1 * rng.standard_normal(size))

    keys, values = KEY_HEADS * STATE_SIZE, VALUE_HEADS * STATE_SIZE
    matrix("token_embd.weight", VOCABULARY, EMBEDDING, np.sqrt(EMBEDDING))
    matrix("output.weight", VOCABULARY, EMBEDDING)
    norm("output_norm.weight", EMBEDDING)
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        norm(block + "attn_norm.weight", EMBEDDING)
        norm(block + "post_attention_norm.weight", EMBEDDING)
        if layer % 4 == 3:
            matrix(block + "attn_q.weight", 2 * HEADS * HEAD_SIZE, EMBEDDING)  # and a gate of the output
            matrix(block + "attn_k.weight", KV_HEADS * HEAD_SIZE, EMBEDDING)
            matrix(block + "attn_v.weight", KV_HEADS * HEAD_SIZE, EMBEDDING)
            matrix(block + "attn_output.weight", EMBEDDING, HEADS * HEAD_SIZE)
            norm(block + "attn_q_norm.weight", HEAD_SIZE)
            norm(block + "attn_k_norm.weight", HEAD_SIZE)
        else:
            matrix(block + "attn_qkv.weight", 2 * keys + values, EMBEDDING)
            matrix(block + "attn_gate.weight", values, EMBEDDING)
            matrix(block + "ssm_conv1d.weight", 2 * keys + values, KERNEL, 2)
            matrix(block + "ssm_alpha.weight", VALUE_HEADS, EMBEDDING)
            matrix(block + "ssm_beta.weight", VALUE_HEADS, EMBEDDING)
            vector(block + "ssm_dt.bias", rng.uniform(-2, 1, VALUE_HEADS))
            vector(block + "ssm_a", -rng.uniform(0.02, 1, VALUE_HEADS))
            norm(block + "ssm_norm.weight", STATE_SIZE)
            matrix(block + "ssm_out.weight", EMBEDDING, values)
        matrix(block + "ffn_gate.weight", FEED_FORWARD, EMBEDDING)
        matrix(block + "ffn_up.weight", FEED_FORWARD, EMBEDDING)
        matrix(block + "ffn_down.weight", EMBEDDING, FEED_FORWARD)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
