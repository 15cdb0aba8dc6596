-- Sliding windows and packed documents by graphs of cuDNN and by FlashAttention, for attention_graphs_test.py. The
-- stand-in computes nothing.
--
--   --arg documents=FILE    documents of several lengths
--   --arg only=graphs       models that only graphs of cuDNN compute
local rush = require "optrush"

local exp = rush.experiment {
  name = "attention_graphs",
  device = "cuda",
  model = rush.llama("tiny", { n_layers = 2, dim = 128, n_heads = 4, n_kv_heads = 2 }),
  data = rush.random(),
  train = { micro_batch = 2, seq_len = 128, steps = 2, warmup = 3 },
  plugins = { "bf16_weights" },
}

-- Values of another width than keys, as in DeepSeek V3, and soft caps, as in Gemma 2: no other fused kernel has them.
local latent = { kv_rank = 64, q_rank = 64, rope_dim = 16, value_dim = 16 }
if rush.arg("only", "both") == "graphs" then
  local cudnn = { kernel = "cudnn" }
  exp:grid { {
    rush.rung("values", "flash_attention", cudnn, { model = { latent = latent, n_kv_heads = 4 } }),
    rush.rung("capped", "flash_attention", cudnn, { model = { attention_soft_cap = 30, window = 48 } }),
  } }
  exp:run { rounds = 1 }
  return
end

local documents = rush.documents(rush.arg("documents", "documents.jsonl"))
exp:grid {
  {
    rush.rung("window", { model = { window = 48 } }),
    rush.rung("documents", "packing", {}, { data = documents }),
    rush.rung("both", "packing", {}, { data = documents, model = { window = 16 } }),
    rush.rung("recorded", "cuda_graphs", {}, { model = { window = 48 } }),
    rush.rung("checkpointed", "activation_checkpointing", {}, { model = { window = 48 } }),
  },
  {
    rush.rung("flash", "flash_attention", { kernel = "flash" }),
    rush.rung("cudnn", "flash_attention", { kernel = "cudnn" }),
  },
}
exp:run { rounds = 1 }
