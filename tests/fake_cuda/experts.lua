-- A mixture of experts with one product for all experts. The stand-in computes nothing.
local rush = require "optrush"

local exp = rush.experiment {
  name = "experts",
  device = "cuda",
  model = rush.llama("tiny", { n_layers = 2 }),
  data = rush.random(),
  train = { micro_batch = 2, seq_len = 128, steps = 2, warmup = 3 },
}
exp:ladder {
  rush.rung("grouped", {
    model = { n_experts = 4, expert_ffn_dim = 128 },
    plugins = { "mixed_precision", "fused_adamw", "grouped_experts" },
  }),
}
exp:run { rounds = 1 }
