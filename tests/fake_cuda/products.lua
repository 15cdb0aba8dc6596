-- Products by LibTorch and by cublaslt_matmul, for products_test.py. The stand-in computes nothing.
--
--   --arg ranks=yes    the runs of two ranks
local rush = require "optrush"

local exp = rush.experiment {
  name = "products",
  device = "cuda",
  -- Copies of a tied embedding could not agree, because they have no values here.
  model = rush.llama("tiny", { n_layers = 2, tie_embeddings = false }),
  data = rush.random(),
  train = { micro_batch = 2, seq_len = 128, steps = 2, warmup = 3 },
}

local loss = { "fused_linear_cross_entropy", { chunk = 64 } } -- several chunks, whose gradients are summed in fp32
local in_bf16 = { "bf16_weights", "fused_kernels", loss, "fused_projections" }
if rush.arg("ranks", "no") == "yes" then
  exp:grid {
    {
      rush.rung("copies", { plugins = { "bf16_weights", "ddp" }, train = { world_size = 2 } }),
      rush.rung("parts", { plugins = { "bf16_weights", "tensor_parallel" }, train = { world_size = 2 } }),
      rush.rung("stages", {
        plugins = { "bf16_weights", { "pipeline_parallel", { size = 2 } } },
        train = { world_size = 2, accumulation = 2 },
      }),
    },
    { rush.rung("own", "cublaslt_matmul") },
  }
else
  exp:grid {
    {
      rush.rung("fp32", { plugins = { "fused_adamw" } }),
      rush.rung("bf16", { plugins = in_bf16 }),
      rush.rung("adapter", { plugins = { "mixed_precision", { "lora", { rank = 16 } } } }),
      rush.rung("graph", { plugins = { "fused_adamw", "mixed_precision", "cuda_graphs" } }),
    },
    { rush.rung "LibTorch", rush.rung("own", "cublaslt_matmul") },
  }
end
exp:run { rounds = 1 }
