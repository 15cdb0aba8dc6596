-- ../parallelism_3d.lua in plain form: four ranks, split in three ways.
local rush = require "optrush"
local exp = rush.experiment {
  name = "parallelism_3d_plain",
  model = rush.llama("tiny", { n_layers = 6 }),
  plugins = { "fused_adamw", "flash_attention", "ddp" },
  train = { world_size = 4, micro_batch = 2, seq_len = 128, steps = 6, warmup = 2 },
}
exp:ladder {
  rush.rung("2 cuts", "tensor_parallel", { size = 2 }, { train = { micro_batch = 4 } }),
  rush.rung("2 stages", "pipeline_parallel", { size = 2 }, { train = { micro_batch = 2, accumulation = 4 } }),
}
exp:run({ rounds = 3 }):report()
