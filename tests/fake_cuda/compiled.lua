-- `compile` over each plugin that changes the computation of a unit, for compiled_test.py. The stand-in computes
-- nothing, so units are not compared with eager code.
--
--   --arg width=real    one block of Llama 3.2 1B at 4,096 tokens, for the resources of its kernels
local rush = require "optrush"

local real = rush.arg("width", "small", { "small", "real" }) == "real"
local small = { vocab_size = 64, dim = 32, n_layers = 1, n_heads = 4, n_kv_heads = 2, ffn_dim = 48 }

local exp = rush.experiment {
  name = "compiled",
  device = "cuda",
  model = real and rush.llama("llama-3.2-1b", { n_layers = 1 }) or rush.llama(small),
  data = rush.random(),
  train = { micro_batch = real and 4 or 2, seq_len = real and 4096 or 16, steps = 1, warmup = 1 },
}

exp:grid {
  {
    rush.rung "plain",
    rush.rung("mixed precision", "mixed_precision", { dtype = "bf16" }),
    rush.rung("bf16 weights", "bf16_weights"),
    rush.rung("flash", "flash_attention"),
    rush.rung("fused kernels", "fused_kernels"),
    rush.rung("fused loss", "fused_linear_cross_entropy", real and {} or { chunk = 20 }),
    rush.rung("recomputed SwiGLU", "swiglu_recompute", real and {} or { chunk = 20 }),
    rush.rung("selective checkpointing", "activation_checkpointing", { policy = "selective" }),
    rush.rung("LoRA", "lora", { rank = 4 }),
    rush.rung("nf4", { plugins = { { "lora", { rank = 4 } }, "nf4" } }),
    rush.rung("float8", { plugins = { "bf16_weights", "float8" } }),
    rush.rung("whole stack", {
      plugins = { "bf16_weights", "flash_attention", "fused_kernels", "fused_linear_cross_entropy" },
    }),
  },
  { rush.rung("compile", "compile", { self_check = false }) },
}
exp:run { rounds = 1 }
