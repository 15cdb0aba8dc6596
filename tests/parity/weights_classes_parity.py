"""The weights that `optrush weights` writes have a class of transformers, which computes the losses of the training."""
import pathlib
import sys
import tempfile

from weights_support import LORA, check_written, optrush

OF_INPUTS = ('{ "lora", { rank = 4, alpha = 128, target_modules = { "q_proj", "k_proj", "per_layer_input_gate", '
             '"per_layer_projection", "per_layer_model_projection" } } }, "clip_grad_norm"')
CLASSES = (
    ("OlmoForCausalLM", 'norm = "layernorm_without_parameters"', "", ()),
    ("Olmo2ForCausalLM", 'norm_placement = "after", qk_norm = "whole"', "", ()),
    ("Qwen2ForCausalLM", 'attention_bias = "qkv", window = 5, full_attention_layers = { 0 }', LORA, ("--merge",)),
    ("Qwen3ForCausalLM", 'qk_norm = "per_head", head_dim = 24', "", ()),
    ("SmolLM3ForCausalLM", "layers_without_rope = { 1 }", "", ()),
    ("GemmaForCausalLM", 'activation = "gelu_tanh", embedding_scale = 8', LORA, ("--merge",)),
    ("Gemma2ForCausalLM", 'activation = "gelu_tanh", embedding_scale = 8, norm_placement = "both", '
     "attention_scale = 0.3, attention_soft_cap = 0.3, logits_soft_cap = 2, window = 5, "
     "full_attention_layers = { 1 }", LORA, ("--merge",)),
    ("Gemma3ForCausalLM", 'activation = "gelu_tanh", embedding_scale = 8, norm_placement = "both", '
     'qk_norm = "per_head", attention_scale = 0.3, window = 5, full_attention_layers = { 1 }, '
     "window_rope_theta = 500, logits_soft_cap = 2", "", ()),
    ("GraniteForCausalLM", "embedding_scale = 12, residual_scale = 0.3, logits_divisor = 3, attention_scale = 0.2",
     "", ()),
    ("GraniteMoeHybridForCausalLM", 'embedding_scale = 12, residual_scale = 0.3, attention_scale = 0.2, '
     'position = "none", mamba = { heads = 8, head_dim = 16, state = 12 }, full_attention_layers = { 1 }, '
     "n_experts = 4, expert_ffn_dim = 40, shared_expert_ffn_dim = 48, shared_expert_gate = false",
     LORA, ("--merge",)),
    ("MixtralForCausalLM", "n_experts = 3", LORA, ("--merge",)),
    ("Qwen2MoeForCausalLM",
     'attention_bias = "qkv", n_experts = 4, expert_ffn_dim = 40, shared_expert_ffn_dim = 48',
     LORA, ("--merge",)),
    ("Qwen3MoeForCausalLM", 'qk_norm = "per_head", n_experts = 4, expert_ffn_dim = 40, dense_layers = { 0 }',
     "", ()),
    ("Qwen3NextForCausalLM", 'qk_norm = "per_head", attention_gate = true, rotary_fraction = 0.5, delta_net = { '
     "key_heads = 2, value_heads = 4, key_dim = 8, value_dim = 12, joined = true }, full_attention_layers = { 1 }, "
     "n_experts = 4, expert_ffn_dim = 40, shared_expert_ffn_dim = 48", "", ()),
    ("OlmoeForCausalLM", 'qk_norm = "whole", n_experts = 4, normalize_router = false', "", ()),
    ("Phi3ForCausalLM", "rotary_fraction = 0.5", LORA, ("--merge",)),
    ("Glm4MoeForCausalLM", "rotary_fraction = 0.5, n_experts = 4, expert_ffn_dim = 40, "
     "shared_expert_ffn_dim = 80, shared_expert_gate = false, dense_layers = { 0 }, "
     'router = { scores = "sigmoid", bias = "choice", groups = 2, scale = 1.5 }', "", ()),
    ("DeepseekV3ForCausalLM", "n_kv_heads = 4, head_dim = 24, "
     "latent = { kv_rank = 20, q_rank = 12, rope_dim = 8, value_dim = 12 }, n_experts = 4, expert_ffn_dim = 40, "
     "shared_expert_ffn_dim = 40, shared_expert_gate = false, "
     'router = { scores = "sigmoid", bias = "choice" }', "", ()),
    ("GptOssForCausalLM", 'n_experts = 4, activation = "clamped_silu", attention_bias = "all", '
     'attention_sinks = true, expert_bias = true, router = { bias = "logits" }, window = 5, '
     "full_attention_layers = { 1 }", "", ()),
)
NEMOTRON = 'tie_embeddings = false, activation = "relu2", position = "none", '
# Classes of the newer version of transformers, with which `--newer` runs.
NEWER_CLASSES = (
    ("Gemma4ForCausalLM", 'activation = "gelu_tanh", embedding_scale = 8, norm_placement = "both", '
     'qk_norm = "per_head", value_norm = true, layer_scale = true, attention_scale = 1, logits_soft_cap = 2, '
     'window = 5, full_attention_layers = { 1 }, window_rope_theta = 500, '
     'full_attention = { head_dim = 32, kv_heads = 1, keys_as_values = true }, '
     'rope_scaling = { type = "proportional", fraction = 0.25 }', LORA, ("--merge",)),
    ("Gemma4ForCausalLM", 'activation = "gelu_tanh", embedding_scale = 8, norm_placement = "both", '
     'qk_norm = "per_head", value_norm = true, layer_scale = true, attention_scale = 1, window = 5, '
     "full_attention_layers = { 1 }, window_rope_theta = 500, n_experts = 4, expert_ffn_dim = 40, "
     "experts_beside_mlp = true", "", ()),
    ("NemotronHForCausalLM", NEMOTRON + "mamba = { heads = 8, groups = 2, head_dim = 12, "
     "state = 10, norm_by_group = true, min_step = 0.001 }, full_attention_layers = { 1 }, layers_without_mlp = { 1 }",
     LORA.replace('"q_proj"', '"in_proj"'), ("--merge",)),
    ("NemotronHForCausalLM", NEMOTRON + "mamba = { heads = 8, head_dim = 12, state = 10 }, "
     "full_attention_layers = { 1 }, layers_without_mlp = { 0 }, n_experts = 4, expert_ffn_dim = 40, "
     'shared_expert_ffn_dim = 48, shared_expert_gate = false, router = { scores = "sigmoid", bias = "choice", '
     "scale = 2.5 }", "", ()),
    ("Gemma4ForCausalLM", 'n_layers = 4, activation = "gelu_tanh", embedding_scale = 8, norm_placement = "both", '
     'qk_norm = "per_head", value_norm = true, layer_scale = true, attention_scale = 1, window = 5, '
     "full_attention_layers = { 1, 3 }, full_attention = { head_dim = 32 }, window_rope_theta = 500, "
     "kv_shared_layers = 2, double_wide_mlp = true, per_layer_input_dim = 12, per_layer_vocab_size = 300",
     OF_INPUTS, ("--merge",)),
    ("Ministral3ForCausalLM", 'rope_scaling = { type = "yarn", factor = 4, original_max_position = 8, '
     "query_beta = 0.3 }", "", ()),
    ("Qwen3_5ForCausalLM", 'qk_norm = "per_head", attention_gate = true, rotary_fraction = 0.5, delta_net = { '
     "key_heads = 2, value_heads = 4, key_dim = 8, value_dim = 12 }, full_attention_layers = { 1 }", LORA,
     ("--merge",)),
)


def check_classes(work, classes):
    """The weights that a run writes compute its loss in the class of transformers that its choices need."""
    for number, (kind, choices, plugins, options) in enumerate(classes):
        name = kind if kind not in [each[0] for each in classes[:number]] else f"{kind}-{number}"
        written, _ = check_written(work, name, plugins, f'rush.llama("nano", {{ {choices} }})', *options)
        assert type(written).__name__ == kind
        if kind in ("MixtralForCausalLM", "Qwen2MoeForCausalLM"):
            run = work / f"reports/{kind}/local/runs/00-base-r1"
            said = optrush(work, "weights", run, work / f"{kind}-adapter")
            assert ("transformers 5 leaves out the adapters" in said) == kind.startswith("Qwen2"), said
        if kind == "NemotronHForCausalLM" and plugins:
            run = work / f"reports/{name}/local/runs/00-base-r1"
            assert "--merge" in optrush(work, "weights", run, work / f"{kind}-adapter", code=1)
        if kind == "Phi3ForCausalLM":
            run = work / f"reports/{kind}/local/runs/00-base-r1"
            said = optrush(work, "weights", run, work / f"{kind}-adapter", code=1)
            assert "as a part of 'self_attn.qkv_proj.weight'" in said and "--merge" in said, said


with tempfile.TemporaryDirectory() as folder:
    check_classes(pathlib.Path(folder), NEWER_CLASSES if "--newer" in sys.argv else CLASSES)
