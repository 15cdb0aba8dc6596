-- ../single_gpu.lua in plain form: from the naive base to the compiler on one GPU of 80 GB.
local rush = require "optrush"
local exp = rush.experiment {
  name = "single_gpu_plain",
  model = rush.llama "llama-3.2-1b",
  train = { micro_batch = 1, seq_len = 2048, steps = 10, warmup = 3 },
}
exp:ladder {
  rush.rung("bf16 autocast", "mixed_precision"),
  rush.rung("FlashAttention", "flash_attention"),
  rush.rung("fused loss", "fused_linear_cross_entropy"),
  rush.rung("micro-batch 4", { train = { micro_batch = 4 } }),
  rush.rung("compile", "compile"),
}
exp:run({ rounds = 3 }):report()
