-- `compile` in each of its modes, for compile_modes_test.py. The stand-in computes nothing, so units are not compared
-- with eager code.
local rush = require "optrush"

local exp = rush.experiment {
  name = "compile_modes",
  device = "cuda",
  model = rush.llama { vocab_size = 64, dim = 32, n_layers = 1, n_heads = 4, n_kv_heads = 2, ffn_dim = 32 },
  data = rush.random(),
  train = { micro_batch = 2, seq_len = 16, steps = 2, warmup = 3 },
  plugins = { "fused_adamw" },
}

local function rung(name, mode, units, graphs)
  local stack = { { "compile", { mode = mode, units = units, self_check = false } } }
  if graphs then
    stack[2] = "cuda_graphs"
  end
  return rush.rung(name, { plugins = stack })
end

exp:grid { {
  rung("default", "default", {}),
  rung("default, graphs", "default", {}, true),
  rung("reduce-overhead, auto, graphs", "reduce-overhead", { "auto" }, true),
  rung("reduce-overhead alone", "reduce-overhead", {}),
  rung("max-autotune-no-cudagraphs", "max-autotune-no-cudagraphs", { "mlp" }),
  rung("max-autotune-no-cudagraphs, auto, graphs", "max-autotune-no-cudagraphs", { "mlp", "auto" }, true),
  rung("max-autotune, graphs", "max-autotune", { "mlp" }, true),
} }
exp:run { rounds = 1 }
