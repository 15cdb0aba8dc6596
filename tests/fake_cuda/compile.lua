-- Every mode of compilation: Inductor makes kernels for a GPU that is not there, and each is loaded and launched. Nothing
-- is computed here.
local rush = require "optrush"

local exp = rush.experiment {
  name = "fake_compile",
  device = "cuda",
  model = rush.llama("tiny", { n_layers = 2 }),
  data = rush.random(),
  plugins = { "bf16_weights", "flash_attention" },
  train = { micro_batch = 2, seq_len = 128, steps = 2, warmup = 3 },
}

exp:ladder {
  rush.rung("default", "compile"),
  rush.rung("reduce-overhead", {
    plugins = { { "compile", { mode = "reduce-overhead" } }, "cuda_graphs" },
    replace = "compile",
  }),
  rush.rung("max-autotune", "compile", { mode = "max-autotune" }, { replace = "compile" }),
  rush.rung("max-autotune, no graphs", "compile", { mode = "max-autotune-no-cudagraphs" }, {
    replace = { "compile", "cuda_graphs" },
  }),
  rush.rung("float8", "float8"),
}
exp:run { rounds = 1 }
