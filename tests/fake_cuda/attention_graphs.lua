-- Sliding windows and packed documents by graphs of cuDNN and by FlashAttention, for attention_graphs_test.py. The
-- stand-in computes nothing.
--
--   --arg documents=FILE    documents of several lengths
local rush = require "optrush"

local documents = rush.documents(rush.arg("documents", "documents.jsonl"))
local exp = rush.experiment {
  name = "attention_graphs",
  device = "cuda",
  model = rush.llama("tiny", { n_layers = 2, dim = 128, n_heads = 4, n_kv_heads = 2 }),
  data = rush.random(),
  train = { micro_batch = 2, seq_len = 128, steps = 2, warmup = 3 },
  plugins = { "bf16_weights" },
}

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
