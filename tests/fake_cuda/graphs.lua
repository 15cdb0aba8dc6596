-- A recorded step and the same eager step with a batch of each kind, for graphs_test.py. The stand-in computes nothing.
--
--   --arg documents=FILE    documents of one length with the same number of trained tokens
local rush = require "optrush"

local documents = rush.documents(rush.arg("documents", "documents.jsonl"))
local exp = rush.experiment {
  name = "graphs",
  device = "cuda",
  model = rush.llama("tiny", { n_layers = 2 }),
  data = rush.random(),
  train = { micro_batch = 2, seq_len = 32, steps = 2, warmup = 3 },
  plugins = { "fused_adamw" },
}

exp:grid {
  {
    rush.rung("tokens", { train = { seq_len = 48 } }),
    rush.rung("documents", "gradient_accumulation", { steps = 2 }, { data = documents }),
    rush.rung("activations", { model = rush.operator("mlp", { dim = 64, ffn_dim = 96, ["repeat"] = 2 }) }),
  },
  { rush.rung "eager", rush.rung("graph", "cuda_graphs") },
}
exp:run { rounds = 1 }
