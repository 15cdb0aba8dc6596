-- Llama 3.2 1B on a card that has a little more memory than tensors need: fragments fill it, growing segments have none,
-- and a recorded step fits as well. Nothing is computed here.
local rush = require "optrush"

local exp = rush.experiment {
  name = "short_of_memory",
  device = "cuda",
  model = rush.llama "llama-3.2-1b",
  data = rush.random(),
  plugins = { "mixed_precision", "fused_adamw", "flash_attention", "fused_kernels" },
  train = { micro_batch = 4, seq_len = 4096, steps = 2, warmup = 3 },
}

exp:ladder {
  rush.rung("growing segments", { env = { PYTORCH_ALLOC_CONF = "expandable_segments:True" } }),
  rush.rung("bf16 weights", {
    plugins = { "bf16_weights", "fused_linear_cross_entropy" },
    replace = { "mixed_precision", "fused_adamw" },
  }),
  rush.rung("CUDA graphs", "cuda_graphs"),
}
exp:run { rounds = 1 }
