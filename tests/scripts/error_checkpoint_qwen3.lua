-- A model that is not supported is refused at the line that names it.
-- expect-error: error_checkpoint_qwen3.lua:5: <scripts>/checkpoint_qwen3/config.json: 'architectures' names 'Qwen3ForCausalLM', a model that is not supported: it normalizes queries and keys
-- expect-error:   hint: models that load are LlamaForCausalLM, MistralForCausalLM, OlmoForCausalLM; this model differs from all of them. To train a Llama of the same sizes from initial weights: rush.llama { vocab_size = 4, dim = 2, n_layers = 1, n_heads = 1, n_kv_heads = 1, ffn_dim = 2 }
local rush = require "optrush"
rush.checkpoint "checkpoint_qwen3"
