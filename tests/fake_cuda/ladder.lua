-- Every single-GPU plugin in a rung, at the smallest size that it allows. The stand-in computes nothing.
local rush = require "optrush"

local exp = rush.experiment {
  name = "fake_cuda",
  device = "cuda",
  model = rush.llama("tiny", { n_layers = 2 }),
  data = rush.random(),
  train = { micro_batch = 2, seq_len = 128, steps = 2, warmup = 3 },
}

exp:ladder {
  rush.rung("tf32", "tf32"),
  rush.rung("bf16 autocast", "mixed_precision", { dtype = "bf16" }),
  rush.rung("fused AdamW", "fused_adamw"),
  rush.rung("flash", "flash_attention"),
  rush.rung("fused kernels", "fused_kernels"),
  rush.rung("fused loss", "fused_linear_cross_entropy"),
  rush.rung("fused projections", "fused_projections"),
  rush.rung("clipping", "clip_grad_norm"),
  rush.rung("CUDA graphs", "cuda_graphs"),
  rush.rung("accumulation", "gradient_accumulation", { steps = 2 }, { over = "clipping" }),
  rush.rung("checkpointing", "activation_checkpointing"),
}
exp:run { rounds = 1 }
