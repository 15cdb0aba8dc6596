-- ../swiglu_checkpoint.lua in plain form: a stack of MLPs that keeps all tensors, or recomputes most of them.
local rush = require "optrush"
local exp = rush.experiment {
  name = "swiglu_checkpoint_plain",
  model = rush.operator("mlp", { dim = 512, ffn_dim = 2048, ["repeat"] = 5 }),
  train = { micro_batch = 4, seq_len = 1024, steps = 15, warmup = 2 },
}
exp:ladder {
  rush.rung("level 0", "swiglu_recompute", { level = 0 }),
  rush.rung("level 1", "swiglu_recompute", { level = 1 }, { replace = "swiglu_recompute" }),
}
exp:run({ rounds = 3 }):report()
