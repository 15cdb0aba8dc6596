-- ../flagship.lua in plain form: one GPU of 80 GB.
local rush = require "optrush"
local exp = rush.experiment {
  name = "flagship_plain",
  model = rush.llama "llama-3.2-1b",
  data = rush.text(rush.corpus "libtorch"),
  plugins = { "mixed_precision", "fused_adamw", "flash_attention" },
  train = { micro_batch = 4, seq_len = 4096, steps = 15, warmup = 3 },
}
exp:ladder {
  rush.rung("fused kernels", "fused_kernels"),
  rush.rung("fused loss", "fused_linear_cross_entropy"),
  rush.rung("bf16 weights", "bf16_weights", {}, { replace = { "mixed_precision", "fused_adamw" } }),
}
exp:run({ rounds = 3 }):report()
