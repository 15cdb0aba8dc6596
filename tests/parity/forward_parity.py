"""forward_parity.py [--plain]: compares `optrush-worker forward` with transformers and peft for small random models.

It compares every logit, loss and gradient. --plain leaves out plugins. An error is the largest difference of a tensor
relative to the largest value of the reference. Exit code 0: passed, 1: failed, 77: the packages are missing."""
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    import reference
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

BUILD = Path(os.environ["OPTRUSH_BUILD_DIR"])
WORKER = BUILD / "bin" / "optrush-worker"
MANY = BUILD / "tests" / "bin" / "forward_many"
LENGTH = 37

# fp32 and fp64: another order of the same sums. bf16 has 8 bits, and a gradient is a long chain of roundings.
LIMITS = {"fp32": 1e-5, "fp64": 1e-12, "bf16": 6e-2, "exact": 0.0}
# Most of the sum of a decay's gradient cancels. In fp32 the gradients of both programs are up to 2e-5 from fp64.
DECAYS, OF_DECAYS = ("A_log", "dt_bias"), 1e-4


def small(**fields):
    return {"vocab_size": 97, "hidden_size": 64, "intermediate_size": 113, "num_hidden_layers": 2,
            "num_attention_heads": 4, "rms_norm_eps": 1e-5, **fields}


def llama(**fields):
    return transformers.LlamaConfig(**small(**fields))


def llama3_rope(factor):
    # With 16 positions all three kinds of wavelength occur: kept, interpolated, stretched.
    return {"rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16}


def longrope(pairs):
    return {"type": "longrope", "short_factor": [1.0 + i / 10 for i in range(pairs)],
            "long_factor": [1.5 + i for i in range(pairs)]}


def deepseek(**fields):
    return transformers.DeepseekV3Config(**small(
        num_hidden_layers=3, num_key_value_heads=4, kv_lora_rank=20, qk_nope_head_dim=16, qk_rope_head_dim=8,
        n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=24, routed_scaling_factor=2.5,
        first_k_dense_replace=1, **{"n_group": 4, "topk_group": 2, "v_head_dim": 12, **fields}))


def qwen3_next(kind=transformers.Qwen3NextConfig, **fields):
    return kind(**small(**{"num_hidden_layers": 3, "num_key_value_heads": 2, "head_dim": 24, "linear_num_key_heads": 2,
                           "linear_num_value_heads": 4, "linear_key_head_dim": 12, "linear_value_head_dim": 20,
                           "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
                           "shared_expert_intermediate_size": 40,
                           "layer_types": ["linear_attention", "full_attention", "linear_attention"], **fields}))


def granite4(**fields):
    return transformers.GraniteMoeHybridConfig(**small(**{
        "num_hidden_layers": 3, "num_key_value_heads": 2, "pad_token_id": None, "embedding_multiplier": 12.0,
        "logits_scaling": 8.0, "residual_multiplier": 0.22, "attention_multiplier": 0.1, "num_local_experts": 0,
        "shared_intermediate_size": 56, "layer_types": ["mamba", "attention", "mamba"], "mamba_n_heads": 8,
        "mamba_d_state": 12, "mamba_chunk_size": 32, **fields}))


MODELS = {
    "one kv head a head": llama(),
    "2 heads a kv head, tied": llama(num_key_value_heads=2, tie_word_embeddings=True),
    "4 heads a kv head": llama(hidden_size=96, num_attention_heads=8, num_key_value_heads=2, rope_theta=500000.0),
    "one kv head, Llama 3 rope": llama(num_key_value_heads=1, rope_scaling=llama3_rope(8.0)),
    "linear rope": llama(rope_scaling={"rope_type": "linear", "factor": 4.0}),
    "dynamic rope, no longer than trained": llama(rope_scaling={"rope_type": "dynamic", "factor": 4.0},
                                                  max_position_embeddings=LENGTH),
    "rope_parameters": llama(num_key_value_heads=2, rope_theta=500.0, rope_scaling=llama3_rope(32.0)),
    "odd sizes, 5 heads of 10 on 60": llama(vocab_size=101, hidden_size=60, num_attention_heads=5,
                                            num_key_value_heads=1, head_dim=10, num_hidden_layers=3),
    "Mistral, 4 kv heads of 8": transformers.MistralConfig(
        vocab_size=97, hidden_size=96, intermediate_size=113, num_hidden_layers=2, num_attention_heads=8,
        num_key_value_heads=4, sliding_window=None),
    "Mistral, a window of all": transformers.MistralConfig(
        vocab_size=97, hidden_size=64, intermediate_size=113, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, sliding_window=LENGTH),
    # Without a padding token: transformers gives its row no gradient.
    "OLMo, tied": transformers.OlmoConfig(vocab_size=97, hidden_size=64, intermediate_size=113, num_hidden_layers=2,
                                          num_attention_heads=4, tie_word_embeddings=True, pad_token_id=None),
    "yarn rope": llama(rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}),
    "yarn rope, factor 1": llama(rope_scaling={
        "rope_type": "yarn", "factor": 1.0, "original_max_position_embeddings": 16, "attention_factor": 1.5}),
    "yarn rope, all settings": llama(head_dim=24, rope_scaling={
        "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 32, "beta_fast": 8.0, "beta_slow": 2.0,
        "attention_factor": 1.3, "truncate": False}),
    "biases of all projections": llama(num_key_value_heads=2, attention_bias=True),
    "Mistral, a window of 5": transformers.MistralConfig(**small(num_key_value_heads=2), sliding_window=5),
    "Qwen 2": transformers.Qwen2Config(**small(num_key_value_heads=2), tie_word_embeddings=True),
    "Qwen 2, windows of 8": transformers.Qwen2Config(
        **small(num_hidden_layers=4, num_key_value_heads=1), use_sliding_window=True, sliding_window=8,
        max_window_layers=2),
    "Qwen 3": transformers.Qwen3Config(**small(num_key_value_heads=2), head_dim=24),
    "Qwen 3, biases, windows": transformers.Qwen3Config(
        **small(num_hidden_layers=3, num_key_value_heads=2), head_dim=16, attention_bias=True, use_sliding_window=True,
        sliding_window=9, layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
    "OLMo 2": transformers.Olmo2Config(**small(num_key_value_heads=2), pad_token_id=None),
    "OLMo 2, linear rope": transformers.Olmo2Config(**small(), pad_token_id=None,
                                                    rope_scaling={"type": "linear", "factor": 2.0}),
    "OLMo 3": transformers.Olmo3Config(**small(num_hidden_layers=5), pad_token_id=None, sliding_window=6),
    "SmolLM3": transformers.SmolLM3Config(**small(num_hidden_layers=5, num_key_value_heads=2), pad_token_id=None),
    "SmolLM3, windows": transformers.SmolLM3Config(
        **small(num_hidden_layers=4, num_key_value_heads=2), pad_token_id=None, no_rope_layers=[1, 0, 1, 0],
        use_sliding_window=True, sliding_window=7),
    "Mixtral": transformers.MixtralConfig(**small(num_key_value_heads=2), num_local_experts=4, num_experts_per_tok=2),
    "Mixtral, a window of 9": transformers.MixtralConfig(**small(num_key_value_heads=4), num_local_experts=5,
                                                         num_experts_per_tok=3, sliding_window=9),
    "Qwen 2 MoE": transformers.Qwen2MoeConfig(
        **small(num_hidden_layers=3, num_key_value_heads=2), num_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=40, shared_expert_intermediate_size=56, mlp_only_layers=[0]),
    "Qwen 2 MoE, normalized, no biases": transformers.Qwen2MoeConfig(
        **small(num_key_value_heads=4), num_experts=4, num_experts_per_tok=3, moe_intermediate_size=24,
        shared_expert_intermediate_size=113, norm_topk_prob=True, qkv_bias=False),
    "Qwen 3 MoE": transformers.Qwen3MoeConfig(
        **small(num_hidden_layers=3, num_key_value_heads=2), head_dim=24, num_experts=6, num_experts_per_tok=2,
        moe_intermediate_size=40, norm_topk_prob=True, mlp_only_layers=[1]),
    "OLMoE": transformers.OlmoeConfig(**small(num_key_value_heads=2), num_experts=4, num_experts_per_tok=2,
                                      pad_token_id=None),
    "sharded": llama(num_key_value_heads=2, num_hidden_layers=4),
    "stored as bf16": llama(num_key_value_heads=2),
    "GELU": llama(hidden_act="gelu"),
    "Gemma": transformers.GemmaConfig(**small(num_key_value_heads=1), head_dim=24, pad_token_id=None),
    "Gemma 2": transformers.Gemma2Config(
        **small(num_hidden_layers=3, num_key_value_heads=2), head_dim=24, query_pre_attn_scalar=20, sliding_window=6,
        attn_logit_softcapping=0.2, final_logit_softcapping=1.5, pad_token_id=None),
    "Gemma 2, biases, no caps": transformers.Gemma2Config(
        **small(num_key_value_heads=4), head_dim=16, sliding_window=9, attention_bias=True, attn_logit_softcapping=None,
        final_logit_softcapping=None, pad_token_id=None, tie_word_embeddings=False,
        layer_types=["full_attention", "sliding_attention"]),
    # The sixth layer has full attention.
    "Gemma 3": transformers.Gemma3TextConfig(**small(num_hidden_layers=7, num_key_value_heads=2), head_dim=24,
                                             query_pre_attn_scalar=20, sliding_window=6, pad_token_id=None),
    "Gemma 3, linear rope, biases": transformers.Gemma3TextConfig(
        **small(num_hidden_layers=2, num_key_value_heads=2), head_dim=24, sliding_window=9, attention_bias=True,
        layer_types=["full_attention", "sliding_attention"], rope_scaling={"rope_type": "linear", "factor": 8.0},
        pad_token_id=None, tie_word_embeddings=False, final_logit_softcapping=0.8),
    "OLMo 3, yarn beside windows": transformers.Olmo3Config(
        **small(num_hidden_layers=4), pad_token_id=None, sliding_window=6,
        rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}),
    "Phi 3, part of the head rotated": transformers.Phi3Config(
        **small(num_key_value_heads=2), partial_rotary_factor=0.75, sliding_window=9, pad_token_id=None),
    "Phi 3, longrope, longer": transformers.Phi3Config(
        **small(num_key_value_heads=2), pad_token_id=None, max_position_embeddings=64, rope_scaling=longrope(8),
        original_max_position_embeddings=16),
    "Phi 3, longrope, shorter": transformers.Phi3Config(
        **small(), pad_token_id=None, max_position_embeddings=256, partial_rotary_factor=0.5, rope_scaling=longrope(4),
        original_max_position_embeddings=64, tie_word_embeddings=True),
    "GLM 4.5 with experts": transformers.Glm4MoeConfig(
        **small(num_hidden_layers=3, num_key_value_heads=2), head_dim=24, use_qk_norm=True, attention_bias=True,
        partial_rotary_factor=0.5, n_routed_experts=6, num_experts_per_tok=3, moe_intermediate_size=40,
        n_shared_experts=2, routed_scaling_factor=1.7, n_group=3, topk_group=2, first_k_dense_replace=1),
    "GLM 4.5, one group, no norms": transformers.Glm4MoeConfig(
        **small(num_key_value_heads=4), n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
        norm_topk_prob=False, first_k_dense_replace=0),
    "DeepSeek V3": deepseek(q_lora_rank=24, rope_scaling={
        "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "mscale": 1.0, "mscale_all_dim": 0.8,
        "beta_fast": 32, "beta_slow": 1}),
    "DeepSeek V3, halves, biases": deepseek(
        q_lora_rank=None, rope_interleave=False, attention_bias=True, v_head_dim=24, n_group=1, topk_group=1,
        tie_word_embeddings=True),
    "gpt-oss": transformers.GptOssConfig(
        **small(num_hidden_layers=2, num_key_value_heads=2), head_dim=16, num_local_experts=4, num_experts_per_tok=2,
        sliding_window=9, rope_scaling={"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
                                        "truncate": False, "original_max_position_embeddings": 16}),
    "Qwen3-Next": qwen3_next(mlp_only_layers=[0]),
    "Qwen3-Next, 1 value a key, dense": qwen3_next(
        num_hidden_layers=4, layer_types=None, linear_num_value_heads=2, linear_conv_kernel_dim=3, attention_bias=True,
        num_experts=0, partial_rotary_factor=0.5, tie_word_embeddings=True),
    "Granite": transformers.GraniteConfig(**small(num_key_value_heads=2), embedding_multiplier=12.0, logits_scaling=8.0,
                                          residual_multiplier=0.22, attention_multiplier=0.1),
    "Granite 4": granite4(),
    "Granite 4 with experts": granite4(
        num_local_experts=4, num_experts_per_tok=2, position_embedding_type="rope", attention_bias=True, mamba_d_conv=3,
        mamba_conv_bias=False, mamba_proj_bias=True, layer_types=["attention", "mamba", "mamba"]),
    "Granite 4, attention alone": granite4(layer_types=["attention"] * 3, position_embedding_type="rope",
                                           tie_word_embeddings=True),
}
VISION = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
QWEN_VISION = {"hidden_size": 16, "intermediate_size": 24, "depth": 1, "num_heads": 2, "out_hidden_size": 64,
               "deepstack_visual_indexes": []}
MROPE = {"rope_type": "default", "mrope_section": [6, 3, 3], "mrope_interleaved": True}
# Models with an image encoder, whose text model is trained.
MODELS |= {
    "Gemma 3 with images": transformers.Gemma3Config(
        text_config={**small(num_hidden_layers=7, num_key_value_heads=2), "head_dim": 24, "sliding_window": 6},
        vision_config={**VISION, "image_size": 28, "patch_size": 14}, mm_tokens_per_image=4),
    "Mistral 3 with images": transformers.Mistral3Config(
        text_config={**small(num_key_value_heads=2), "model_type": "mistral", "head_dim": 16, "sliding_window": None},
        vision_config={**VISION, "model_type": "pixtral", "head_dim": 8, "image_size": 28, "patch_size": 14}),
    "Qwen3-VL": transformers.Qwen3VLConfig(
        text_config={**small(num_key_value_heads=2), "head_dim": 24, "rope_theta": 5e4, "rope_scaling": MROPE},
        vision_config=QWEN_VISION, tie_word_embeddings=True),
    "Qwen2.5-VL": transformers.Qwen2_5_VLConfig(
        text_config={**small(num_key_value_heads=2), "rope_scaling": {"type": "mrope", "mrope_section": [4, 2, 2]}},
        vision_config={**QWEN_VISION, "out_hidden_size": 64}),
    "SmolVLM": transformers.SmolVLMConfig(
        text_config={**small(num_key_value_heads=2), "model_type": "llama", "pad_token_id": None},
        vision_config={**VISION, "image_size": 28, "patch_size": 14}),
    "LLaVA": transformers.LlavaConfig(
        text_config={**small(num_key_value_heads=2), "model_type": "llama"},
        vision_config={**VISION, "model_type": "clip_vision_model", "image_size": 28, "patch_size": 14}),
}
if hasattr(transformers, "Ministral3Config"):  # transformers 5
    MODELS["Ministral 3"] = transformers.Ministral3Config(
        **small(num_key_value_heads=2), head_dim=24, pad_token_id=None, rope_parameters={
            "rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 8,
            "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3})
if hasattr(transformers, "Qwen3_5TextConfig"):
    MODELS["Qwen 3.5"] = qwen3_next(transformers.Qwen3_5TextConfig, linear_conv_kernel_dim=3)
    MODELS["Qwen 3.5 with experts"] = qwen3_next(transformers.Qwen3_5MoeTextConfig)
    for kind, name in (("Qwen3_5", "Qwen 3.5 with images"), ("Qwen3_5Moe", "Qwen 3.5 with experts and images")):
        text = qwen3_next(getattr(transformers, f"{kind}TextConfig"))
        MODELS[name] = getattr(transformers, f"{kind}Config")(text_config=text.to_dict(), vision_config=QWEN_VISION)
if hasattr(transformers, "Gemma4TextConfig"):
    GEMMA_4 = {**small(num_hidden_layers=4, num_key_value_heads=2), "head_dim": 24, "sliding_window": 6,
               "hidden_size_per_layer_input": 0, "pad_token_id": None,
               "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]}
    MODELS["Gemma 4"] = transformers.Gemma4TextConfig(
        **GEMMA_4, global_head_dim=32, num_global_key_value_heads=1, attention_k_eq_v=True,
        final_logit_softcapping=30.0)
    MODELS["Gemma 4, one width, all rotated"] = transformers.Gemma4TextConfig(
        **{**GEMMA_4, "layer_types": None, "num_hidden_layers": 7}, global_head_dim=24, rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": 5e4},
            "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}})
    MODELS["Gemma 4 with experts"] = transformers.Gemma4TextConfig(
        **{**GEMMA_4, "num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"]},
        global_head_dim=32, enable_moe_block=True, num_experts=5, top_k_experts=2, moe_intermediate_size=40)
    MODELS["Gemma 4 with images"] = transformers.Gemma4Config(
        text_config={**GEMMA_4, "global_head_dim": 32, "pad_token_id": 0}, vision_config={**VISION, "head_dim": 8})
    INPUTS = {"hidden_size_per_layer_input": 12, "vocab_size_per_layer_input": 120}
    MODELS["Gemma 4, inputs of layers"] = transformers.Gemma4TextConfig(
        **{**GEMMA_4, **INPUTS}, global_head_dim=24, tie_word_embeddings=False)
    # Without hidden states among the outputs, transformers 5.23 cuts the inputs of layers, also if there are none.
    GEMMA_4_SHARED = {**GEMMA_4, "num_kv_shared_layers": 2, "output_hidden_states": True}
    MODELS["Gemma 4, shared keys"] = transformers.Gemma4TextConfig(**GEMMA_4_SHARED, global_head_dim=32)
    # All layers that share keys have full attention.
    MODELS["Gemma 4, shared keys as values"] = transformers.Gemma4TextConfig(
        **{**GEMMA_4_SHARED, "num_hidden_layers": 5, "layer_types": ["full_attention", "sliding_attention"] + [
            "full_attention"] * 3}, use_double_wide_mlp=True, global_head_dim=32, num_global_key_value_heads=1,
        attention_k_eq_v=True)
    MODELS["Gemma 4 E"] = transformers.Gemma4TextConfig(
        **{**GEMMA_4, **INPUTS, "num_hidden_layers": 6, "layer_types": ["sliding_attention", "full_attention"] * 3},
        num_kv_shared_layers=3, use_double_wide_mlp=True, global_head_dim=32, final_logit_softcapping=30.0)
    MODELS["Gemma 4 E with experts"] = transformers.Gemma4TextConfig(
        **{**GEMMA_4, **INPUTS}, num_kv_shared_layers=1, use_double_wide_mlp=True, global_head_dim=32,
        enable_moe_block=True, num_experts=5, top_k_experts=2, moe_intermediate_size=40)
    MODELS["Gemma 4 E with images"] = transformers.Gemma4Config(
        text_config={**GEMMA_4, **INPUTS, "num_kv_shared_layers": 2, "global_head_dim": 32, "pad_token_id": 0},
        vision_config={**VISION, "head_dim": 8})
if hasattr(transformers, "NemotronHConfig"):
    def nemotron(pattern, groups, **fields):
        return transformers.NemotronHConfig(
            vocab_size=97, hidden_size=64, intermediate_size=113, num_attention_heads=4, num_key_value_heads=2,
            head_dim=24, hybrid_override_pattern=pattern, n_groups=groups, pad_token_id=None,
            **{"mamba_num_heads": 8, "mamba_head_dim": 12, "ssm_state_size": 10, "chunk_size": 32,
               "n_routed_experts": 6, "moe_intermediate_size": 40, "moe_shared_expert_intermediate_size": 56,
               "num_experts_per_tok": 2, "routed_scaling_factor": 2.5, **fields})

    # The least time step is above some of the steps.
    MODELS["Nemotron-H"] = nemotron("M-M*-", 2, time_step_min=0.5)
    MODELS["Nemotron-H with experts"] = nemotron("MEM*E", 4, n_group=3, topk_group=2, num_experts_per_tok=3)
    MODELS["Nemotron-H, one group"] = nemotron("M*-ME", 1, use_bias=True, use_conv_bias=False, conv_kernel=3,
                                               norm_topk_prob=False)
    MODELS["Nemotron-H, attention alone"] = nemotron("**-*", 8)
# The delta rule has chunks of 64 positions.
LENGTHS = {"Qwen3-Next": 100, "Qwen 3.5": 100, "Granite 4": 100, "Nemotron-H": 100}
STACKS = [
    (["flash_attention"], "fp32"),
    (["activation_checkpointing"], "exact"),
    (["mixed_precision:dtype=bf16"], "bf16"),
    (["flash_attention", "activation_checkpointing", "mixed_precision:dtype=bf16"], "bf16"),
]
FUSED = [
    (["flash_attention", "fused_kernels", "fused_projections", "swiglu_recompute"], "fp32"),
    (["flash_attention", "activation_checkpointing", "mixed_precision:dtype=bf16"], "bf16"),
]
GATED_BY_GELU = [
    (["flash_attention", "fused_kernels", "fused_projections"], "fp32"),
    (["flash_attention", "activation_checkpointing", "mixed_precision:dtype=bf16"], "bf16"),
]
CAPPED = [  # attention has a cap too, which no fused kernel has
    (["fused_linear_cross_entropy", "fused_kernels", "fused_projections"], "fp32"),
    (["fused_linear_cross_entropy:chunk=5", "activation_checkpointing", "mixed_precision:dtype=bf16"], "bf16"),
]
LATENT = [  # fused attention has one width for keys and values
    (["fused_kernels", "fused_projections", "activation_checkpointing"], "fp32"),
]
SINKS = [
    (["flash_attention", "fused_kernels", "fused_projections"], "fp32"),
]
# PEFT adapts linear modules; the experts of gpt-oss are none.
LINEAR = [
    (["flash_attention", "fused_kernels", "fused_projections", "swiglu_recompute"], "fp32"),
    (["activation_checkpointing"], "exact"),
]
TARGETS = {"DeepSeek V3": ["q_b_proj", "kv_b_proj", "down_proj"], "gpt-oss": ["q_proj", "v_proj"],
           "Qwen3-Next": ["in_proj_qkvz", "in_proj_ba", "out_proj", "q_proj"],
           "Granite 4": ["in_proj", "out_proj", "q_proj"]}


class Table:
    def __init__(self):
        self.failed = self.passed = 0
        self.skipped = []
        print(f"{'model':32} {'with':58} {'dtype':5} {'tensors':>7} {'worst':>8} {'limit':>7}  tensor")

    def compare(self, model, stack, dtype, ours, theirs, limit):
        with_ = " + ".join(plugin.split(":")[0] for plugin in stack) or "plain"
        if ours.keys() != theirs.keys():
            print(f"{model:32} {with_:58} {dtype:5} FAILED: other names: {sorted(ours.keys() ^ theirs.keys())}")
            self.failed += 1
            return
        errors = {name: error(ours[name], theirs[name]) for name in theirs}
        worst = max(errors, key=errors.get)
        of_decays = max(limit, OF_DECAYS) if dtype == "fp32" else limit
        # False for nan
        passed = all(e <= (of_decays if name.endswith(DECAYS) else limit) for name, e in errors.items())
        print(f"{model:32} {with_:58} {dtype:5} {len(errors):7} {errors[worst]:8.1e} {limit:7.0e}  {worst}"
              f"{'' if passed else '  FAILED'}", flush=True)
        self.passed += passed
        self.failed += not passed

    def skip(self, what, reason):
        self.skipped.append(f"{what}: {reason}")


def error(ours, theirs):
    if ours.shape != theirs.shape:
        return float("inf")
    difference, largest = (ours.double() - theirs.double()).abs().max(), theirs.double().abs().max()
    return (difference / largest).nan_to_num(nan=float("inf")).item() if largest > 0 else difference.item()


class Forward:
    """The worker's command `forward`. The first calls start the program; the others use one process of forward_many."""

    def __init__(self, by_itself):
        self.by_itself = by_itself
        self.many = None

    def __call__(self, folder, tokens, dtype, stack=()):
        """{name: tensor} of the tensors that it wrote."""
        with tempfile.TemporaryDirectory() as scratch:
            given, out = f"{scratch}/in.safetensors", f"{scratch}/out.safetensors"
            save_file({"input_ids": tokens}, given)
            if self.by_itself > 0:
                self.by_itself -= 1
                self.start(folder, given, out, dtype, stack)
            else:
                self.ask(folder, given, out, dtype, stack)
            return load_file(out)

    def start(self, folder, given, out, dtype, stack):
        command = [WORKER, "forward", "--model", folder, "--tokens", given, "--out", out, "--gradients",
                   "--dtype", dtype, "--device", "cpu"]
        for plugin in stack:
            command += ["--plugin", plugin]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")

    def ask(self, folder, given, out, dtype, stack):
        if self.many is None:
            self.many = subprocess.Popen([MANY], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=subprocess.DEVNULL, text=True)
        request = {"model": str(folder), "tokens": given, "out": out, "dtype": dtype, "plugins": list(stack)}
        print(json.dumps(request), file=self.many.stdin, flush=True)
        answer = self.many.stdout.readline()
        if answer != "null\n":
            sys.exit(f"{request}\n{answer or self.many.wait()}")


forward = Forward(by_itself=4)


def precision(dtype):
    """A context in which transformers computes in this type."""
    return reference.InDouble() if dtype == "fp64" else contextlib.nullcontext()


def missing_plugins(stack):
    return [name for name in (plugin.split(":")[0] for plugin in stack)
            if not (BUILD / "plugins" / f"{name}.so").exists()]


def random_tokens(name, config, seed):
    generator = torch.Generator().manual_seed(seed)
    text = config.get_text_config()
    first = 1 if text.pad_token_id == 0 else 0  # the row of padding has no gradient in transformers
    return torch.randint(first, text.vocab_size, (2, LENGTHS.get(name, LENGTH)), generator=generator)


def check_model(table, name, config, seed):
    tokens = random_tokens(name, config, seed)
    for dtype in ("fp32", "fp64"):
        # fp64 parameters are drawn in fp64, so that a path through fp32 would show.
        with tempfile.TemporaryDirectory() as folder, precision(dtype):
            model = reference.make(config, seed)
            if name == "stored as bf16":
                reference.save_rounded(model, folder)
            else:
                reference.save(model, folder, "50KB" if name == "sharded" else "1GB")
            if name == "sharded" and len(list(Path(folder).glob("*.safetensors"))) < 3:
                sys.exit("the sharded model is not in several files")
            if name == "rope_parameters":
                reference.use_rope_parameters(folder)
            if name == "Qwen2.5-VL":
                reference.flatten_config(folder)
            if name == "Qwen 3.5 with experts and images":
                reference.join_experts(folder)
            table.compare(name, [], dtype, forward(folder, tokens, dtype), reference.evaluate(model, tokens),
                          LIMITS[dtype])


def check_stacks(table, name, config, seed, stacks):
    tokens = random_tokens(name, config, seed)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as lora_folder:
        model = reference.make(config, seed)
        reference.save(model, folder)
        theirs = reference.evaluate(model, tokens)
        plain = forward(folder, tokens, "fp32")
        for stack, limit in stacks:
            if absent := missing_plugins(stack):
                table.skip(" + ".join(stack), f"not built: {', '.join(absent)}")
                continue
            expected = plain if limit == "exact" else theirs
            table.compare(name, stack, "fp32", forward(folder, tokens, "fp32", stack), expected, LIMITS[limit])
        targets = TARGETS.get(name, ["q_proj", "v_proj", "down_proj"])
        lora = f"lora:rank=4,alpha=8,target_modules={','.join(targets)}"
        try:
            adapted = reference.add_lora(model, r=4, lora_alpha=8, target_modules=targets)
        except ImportError as missing:
            table.skip("lora", str(missing))
            return
        reference.save_lora(adapted, folder, lora_folder)
        adapted.zero_grad()
        theirs = reference.evaluate(adapted, tokens)
        kernel = "fused_linear_cross_entropy" if stacks in (CAPPED, LATENT) else "flash_attention"
        for stack in ([lora], [lora, kernel, "activation_checkpointing"]):
            if absent := missing_plugins(stack):
                table.skip(" + ".join(stack), f"not built: {', '.join(absent)}")
                continue
            table.compare(f"{name} (peft)", stack, "fp32", forward(lora_folder, tokens, "fp32", stack), theirs,
                          LIMITS["fp32"])


def check_low_precision_norm(table):
    """OLMo's LayerNorm without parameters, with input and result in bf16 under autocast.

    In fp32 and fp64 it equals transformers. transformers lacks OLMo's option low_precision, which the patch below adds.
    """
    name, stack = "OLMo, tied", ["low_precision_norm"]
    if missing_plugins([*stack, "mixed_precision"]):
        return table.skip("low_precision_norm", "not built")
    config, layer_norm = MODELS[name], transformers.models.olmo.modeling_olmo.OlmoLayerNorm
    tokens = torch.randint(config.vocab_size, (2, LENGTH), generator=torch.Generator().manual_seed(60))
    for dtype in ("fp32", "fp64"):
        with tempfile.TemporaryDirectory() as folder, precision(dtype):
            model = reference.make(config, 60)
            reference.save(model, folder)
            theirs = reference.evaluate(model, tokens)
            table.compare(name, stack, dtype, forward(folder, tokens, dtype, stack), theirs, LIMITS[dtype])

    def low_precision(self, x):
        with torch.autocast("cpu", enabled=False):
            return torch.nn.functional.layer_norm(x.bfloat16(), self.normalized_shape, eps=1e-5)

    in_fp32, layer_norm.forward = layer_norm.forward, low_precision
    try:
        with tempfile.TemporaryDirectory() as folder:
            model = reference.make(config, 60)
            reference.save(model, folder)
            with torch.autocast("cpu", torch.bfloat16):
                theirs = reference.evaluate(model, tokens)
            with_norm = forward(folder, tokens, "fp32", [*stack, "mixed_precision:dtype=bf16"])
            rounded = {key: value.float() for key, value in theirs.items()}
            table.compare(name, [*stack, "mixed_precision"], "bf16", with_norm, rounded, LIMITS["bf16"])
            without = forward(folder, tokens, "fp32", ["mixed_precision:dtype=bf16"])
            if torch.equal(with_norm["logits"], without["logits"]):
                sys.exit("low_precision_norm does not show in the logits")
    finally:
        layer_norm.forward = in_fp32


def check_mxfp4(table):
    """The experts of gpt-oss as blocks of 4-bit numbers, which transformers decodes for the reference."""
    name, generator = "gpt-oss in MXFP4", torch.Generator().manual_seed(51)
    config = transformers.GptOssConfig(**MODELS["gpt-oss"].to_dict() | {"intermediate_size": 96})
    tokens = torch.randint(config.vocab_size, (2, LENGTH), generator=generator)
    model, packed = reference.make(config, 51), {}
    for parameter, value in model.named_parameters():
        if not parameter.endswith((".gate_up_proj", ".down_proj")):
            continue
        experts, width, rows = value.shape
        shape = (experts, rows, width // 32)
        packed[parameter + "_blocks"] = torch.randint(256, (*shape, 16), generator=generator, dtype=torch.uint8)
        packed[parameter + "_scales"] = torch.randint(120, 126, shape, generator=generator, dtype=torch.uint8)
        parts = packed[parameter + "_blocks"], packed[parameter + "_scales"]
        value.data.copy_(convert_moe_packed_tensors(*parts, dtype=torch.float32))
    with tempfile.TemporaryDirectory() as folder:
        reference.save(model, folder)
        weights = load_file(f"{folder}/model.safetensors")
        stored = {key: value for key, value in weights.items() if key + "_blocks" not in packed}
        save_file(stored | packed, f"{folder}/model.safetensors")
        path = Path(folder) / "config.json"
        quantized = json.loads(path.read_text()) | {"quantization_config": {"quant_method": "mxfp4"}}
        path.write_text(json.dumps(quantized))
        table.compare(name, [], "fp32", forward(folder, tokens, "fp32"), reference.evaluate(model, tokens),
                      LIMITS["fp32"])


def check_router_losses(table):
    """With one layer: for several, transformers computes the loss from the shares of all layers together."""
    name, balance = "Mixtral, one layer", 0.3
    config = transformers.MixtralConfig(**small(num_hidden_layers=1, num_key_value_heads=2), num_local_experts=4,
                                        num_experts_per_tok=2, output_router_logits=True, router_aux_loss_coef=balance)
    stack = [f"router_losses:balance={balance}"]
    if missing_plugins(stack):
        return table.skip("router_losses", "not built")
    tokens = torch.randint(config.vocab_size, (2, LENGTH), generator=torch.Generator().manual_seed(50))
    with tempfile.TemporaryDirectory() as folder:
        model = reference.make(config, 50)
        reference.save(model, folder)
        path = Path(folder) / "config.json"
        path.write_text(path.read_text().replace('"output_router_logits": true', '"output_router_logits": false'))
        ours, plain = forward(folder, tokens, "fp32", stack), forward(folder, tokens, "fp32")
        theirs = reference.evaluate(model, tokens)
    gate = "grad.model.layers.0.mlp.gate.weight"
    if error(plain[gate], theirs[gate]) < 100 * LIMITS["fp32"]:
        sys.exit("the load-balancing loss does not show in the gradient of the router")
    for tensors in (ours, theirs):
        del tensors["loss"]  # transformers adds the load-balancing loss
    table.compare(name, stack, "fp32", ours, theirs, LIMITS["fp32"])


def main():
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(2)
    table = Table()
    for seed, (name, config) in enumerate(MODELS.items()):
        check_model(table, name, config, seed)
    check_mxfp4(table)
    if "--plain" not in sys.argv:
        check_plugins(table)
    for line in table.skipped:
        print("skipped:", line)
    print(f"{table.passed} passed, {table.failed} failed, {len(table.skipped)} skipped")
    return 1 if table.failed or not table.passed else 0


def check_plugins(table):
    exact = [stack for stack in FUSED if stack[1] != "bf16"]  # rounding may send a token to another expert
    stacks_of = {"2 heads a kv head, tied": STACKS, "Qwen 2, windows of 8": FUSED, "Qwen 3, biases, windows": FUSED,
                 "OLMo 2": FUSED, "SmolLM3": FUSED, "Qwen 3 MoE": exact, "Gemma 3, linear rope, biases": GATED_BY_GELU,
                 "Gemma 2": CAPPED, "Granite": FUSED, "GLM 4.5 with experts": exact, "DeepSeek V3": LATENT,
                 "Qwen3-Next": LINEAR, "Granite 4": LINEAR, "gpt-oss": SINKS}
    for seed, (name, stacks) in enumerate(stacks_of.items()):
        check_stacks(table, name, MODELS[name], 20 + seed, stacks)
    check_router_losses(table)
    check_low_precision_norm(table)


if __name__ == "__main__":
    sys.exit(main())
