-- ../pipeline.lua in plain form: three schedules of a pipeline of two ranks.
local rush = require "optrush"
local function schedule(name)
  return rush.rung(name, "pipeline_parallel", { schedule = name }, { replace = "pipeline_parallel" })
end
local exp = rush.experiment {
  name = "pipeline_plain",
  model = rush.llama("tiny", { n_layers = 8 }),
  data = rush.text(rush.corpus "libtorch"),
  plugins = { "fused_adamw", "flash_attention", "pipeline_parallel" },
  train = { world_size = 2, micro_batch = 2, accumulation = 8, seq_len = 128, steps = 6, warmup = 2 },
}
exp:grid { schedule = { schedule "gpipe", schedule "1f1b", schedule "zero_bubble" } }
exp:run({ rounds = 3 }):report()
