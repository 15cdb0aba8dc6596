-- Updates in the backward, on one stream and on a second one, for beside_test.py. The stand-in computes nothing.
local rush = require "optrush"

local exp = rush.experiment {
  name = "beside",
  device = "cuda",
  model = rush.llama("tiny", { n_layers = 3 }),
  data = rush.random(),
  train = { micro_batch = 2, seq_len = 128, steps = 2, warmup = 2 },
}

local loss = { "fused_linear_cross_entropy", { chunk = 64 } }
exp:grid {
  {
    rush.rung("adamw", {}),
    rush.rung("fused", { plugins = { "mixed_precision", "fused_adamw" } }),
    rush.rung("bf16", { plugins = { "bf16_weights", "fused_kernels", loss, "fused_projections" } }),
    rush.rung("recomputed", { plugins = { "bf16_weights", "activation_checkpointing" } }),
    rush.rung("rounded", { plugins = { "fused_adamw", "stochastic_rounding" }, train = { dtype = "bf16" } }),
    rush.rung("narrow", { plugins = { "adamw_8bit" } }),
    rush.rung("muon", { plugins = { "muon", { "gradient_accumulation", { steps = 2 } } } }),
  },
  {
    rush.rung("compute", "optimizer_in_backward"),
    rush.rung("side", "optimizer_in_backward", { stream = "side" }),
  },
}
exp:run { rounds = 1 }
