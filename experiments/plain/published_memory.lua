-- ../published_memory.lua in plain form: torchtune's 24.9 GiB, for optrush run FILE --dry-run --as-gpu a100-80.
local rush = require "optrush"
local exp = rush.experiment {
  name = "published_memory_plain",
  model = rush.llama "llama-3.2-3b",
  plugins = { "flash_attention", "fused_adamw", "fused_linear_cross_entropy", "activation_checkpointing" },
  train = { micro_batch = 2, seq_len = 4096, dtype = "bf16", steps = 4, warmup = 2 },
}
exp:run({ rounds = 3 }):report()
