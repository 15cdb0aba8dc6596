-- ../versus_pytorch.lua in plain form: a stack beside transformers with torch.compile.
local rush = require "optrush"
local pytorch = require "peers.pytorch"
local exp = rush.experiment {
  name = "versus_pytorch_plain",
  model = rush.llama "small",
  data = rush.text(rush.corpus "libtorch"),
  train = { micro_batch = 4, seq_len = 512, steps = 6, warmup = 3 },
}
exp:ladder {
  rush.rung("our stack", { plugins = { "fused_adamw", "flash_attention", "fused_kernels" } }),
  pytorch { name = "torch.compile by blocks", with = { "sdpa", "fused" }, compile = "default", form = "blocks" },
}
exp:run({ rounds = 3 }):report()
