-- A recorded step with a batch of each kind, beside the same step as it is, for graphs_test.py. Nothing is computed.
--
--   --arg documents=FILE    documents of one length, of which as many tokens are trained in each
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
