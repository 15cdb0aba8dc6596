-- ../moe.lua in plain form: a mixture beside a dense model with as many active parameters.
local rush = require "optrush"
local exp = rush.experiment {
  name = "moe_plain",
  model = rush.llama("tiny", { n_layers = 2, ffn_dim = 688 }),
  data = rush.text(rush.corpus "libtorch"),
  plugins = { "fused_adamw", "flash_attention" },
  train = { micro_batch = 2, seq_len = 256, steps = 8, warmup = 2 },
}
exp:ladder {
  rush.rung("8 experts, 2 per token", { model = { n_experts = 8, experts_per_token = 2, ffn_dim = 344 } }),
  rush.rung("grouped experts", "grouped_experts"),
}
exp:run({ rounds = 3 }):report()
