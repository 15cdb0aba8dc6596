-- ../fsdp.lua in plain form: copies and shards on two ranks.
local rush = require "optrush"
local exp = rush.experiment {
  name = "fsdp_plain",
  model = rush.llama "tiny",
  data = rush.text(rush.corpus "libtorch"),
  plugins = { "fused_adamw", "flash_attention", "ddp" },
  train = { world_size = 2, micro_batch = 2, seq_len = 128, steps = 8, warmup = 2 },
}
exp:ladder {
  rush.rung("stage 2", "fsdp", { stage = 2 }, { replace = "ddp" }),
  rush.rung("stage 3", "fsdp", { stage = 3 }, { replace = "fsdp" }),
}
exp:run({ rounds = 3 }):report()
