-- ../ddp.lua in plain form: one rank and two, each with a whole copy of the model.
local rush = require "optrush"
local exp = rush.experiment {
  name = "ddp_plain",
  model = rush.llama "tiny",
  data = rush.text(rush.corpus "libtorch"),
  plugins = { "fused_adamw", "flash_attention" },
  train = { micro_batch = 8, seq_len = 256, steps = 10, warmup = 3 },
}
exp:ladder {
  rush.rung("2 ranks", "ddp", {}, { train = { world_size = 2, micro_batch = 4 } }),
}
exp:run({ rounds = 3 }):report()
