-- An unsupported model is refused at the line that names it.
-- expect-error: error_checkpoint_class.lua:5: <scripts>/checkpoint_class/config.json: 'architectures' names 'PhimoeForCausalLM', a model that is not supported: its router and its norms differ
-- expect-error:   hint: models that load are LlamaForCausalLM, MistralForCausalLM, Ministral3ForCausalLM, Phi3ForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, OlmoForCausalLM, Olmo2ForCausalLM, Olmo3ForCausalLM, SmolLM3ForCausalLM, GemmaForCausalLM, Gemma2ForCausalLM, Gemma3ForCausalLM, GraniteForCausalLM, MixtralForCausalLM, Qwen2MoeForCausalLM, Qwen3MoeForCausalLM, OlmoeForCausalLM, Glm4MoeForCausalLM, DeepseekV3ForCausalLM, GptOssForCausalLM; this model differs from all of them, the nearest name is Phi3ForCausalLM. To train a Llama of the same sizes from initial weights: rush.llama { vocab_size = 4, dim = 2, n_layers = 1, n_heads = 1, n_kv_heads = 1, ffn_dim = 2 }
local rush = require "optrush"
rush.checkpoint "checkpoint_class"
