-- The cost of a step of Llama 3.2 1B on a GPU, besides matrix products and attention, counted by plans. Nothing runs.
--
--   ./optrush run bench/on_paper.lua --dry-run --json --as-gpu h100 > plans.json
--   bench/predicted_parts.py plans.json --bandwidth 2.85e12
--
--   --arg model=llama-3.1-8b    its widths; --as-gpu 400 makes room for the plan, and --arg layers=N takes fewer
local rush = require "optrush"

local name, layers = rush.arg("model", "llama-3.2-1b"), tonumber(rush.arg("layers", ""))
local exp = rush.experiment {
  name = "on_paper",
  device = "cuda",
  model = rush.llama(name, layers and { n_layers = layers } or {}),
  data = rush.random(),
  plugins = {
    { "bf16_weights" },
    { "flash_attention", { kernel = "cudnn" } },
    { "fused_kernels" },
    { "fused_linear_cross_entropy" },
  },
  train = { micro_batch = tonumber(rush.arg("micro_batch", "4")), seq_len = 4096, steps = 2, warmup = 1 },
}
exp:ladder {
  rush.rung("fused projections", "fused_projections"),
  rush.rung("float8", "float8", {}, { replace = "fused_projections" }),
  rush.rung("float8, largest values noted", "fused_kernels", { largest_values = true }, { replace = "fused_kernels" }),
  rush.rung("float8, delayed scales", "float8", { scales = "delayed" }, { replace = "float8" }),
}
exp:run { rounds = 1 }
