"""Small configurations of every class that loads: {name: config}."""
import transformers

LENGTH = 37  # positions


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
