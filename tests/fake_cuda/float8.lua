-- `float8` with its options, for float8_test.py. The stand-in computes nothing.
local rush = require "optrush"

local exp = rush.experiment {
  name = "float8",
  device = "cuda",
  model = rush.llama("tiny", { n_layers = 2, dim = 128, ffn_dim = 256, n_heads = 4, n_kv_heads = 4 }),
  data = rush.random(),
  train = { micro_batch = 2, seq_len = 128, steps = 1, warmup = 2 },
  plugins = { "bf16_weights" },
}

exp:grid { {
  rush.rung("none", "float8", { fast_sums = "none" }),
  rush.rung("forward", "float8"),
  rush.rung("all", "float8", { fast_sums = "all" }),
  rush.rung("blockwise", "float8", { recipe = "blockwise" }),
  rush.rung("delayed", { plugins = { "fused_kernels", { "float8", { scales = "delayed" } } } }),
  rush.rung("kept", {
    plugins = { "fused_kernels", { "float8", { scales = "delayed" } },
      { "activation_checkpointing", { policy = "selective" } } },
  }),
  rush.rung("selected", {
    plugins = { "fused_kernels", { "float8", { scales = "delayed", linears = { "q_proj", "k_proj", "v_proj" } } } },
  }),
  rush.rung("recomputed", {
    plugins = { "fused_kernels", { "float8", { scales = "delayed" } }, "activation_checkpointing" },
  }),
  rush.rung("ranks", {
    plugins = { "fused_kernels", { "float8", { scales = "delayed" } }, "fsdp" },
    train = { world_size = 2, micro_batch = 1 },
  }),
} }
exp:run { rounds = 1 }
