-- ../long_context.lua in plain form: two ways to make room for a longer sequence.
local rush = require "optrush"
local exp = rush.experiment {
  name = "long_context_plain",
  model = rush.llama "tiny",
  data = rush.text(rush.corpus "libtorch"),
  plugins = { "fused_adamw", "flash_attention" },
  train = { micro_batch = 1, seq_len = 1024, steps = 6, warmup = 2 },
}
exp:ladder {
  rush.rung("checkpointing", "activation_checkpointing"),
  rush.rung("ring of 2", { plugins = { { "context_parallel", { size = 2 } }, "ddp" }, train = { world_size = 2 } }),
}
exp:run({ rounds = 3 }):report()
