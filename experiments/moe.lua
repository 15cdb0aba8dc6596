-- What does a mixture of experts cost, and which optimizations pay on it?
--
-- The base is dense. In the mixtures each token passes as many parameters as in the base: 2 of 8 experts of half the
-- width, or 4 of 16 of a quarter. They hold four times the parameters of the MLPs, which cost memory and the update,
-- and the products are cut into one per expert. On top of the first mixture, optimizations are added one by one; the
-- last two rungs are the same optimizations on the dense model.
--
--   ./optrush run experiments/moe.lua
local rush = require "optrush"

local gpu = rush.device() == "cuda"
local width = gpu and 8192 or 688

local function experts(count, per_token)
  return { model = { n_experts = count, experts_per_token = per_token, expert_ffn_dim = width // per_token } }
end

local exp = rush.experiment {
  name = "moe",
  question = "What does a mixture of experts cost at equal active parameters, and which optimizations pay on it?",
  model = gpu and rush.llama("llama-3.2-1b", { n_layers = 8 }) or rush.llama("tiny", { n_layers = 2 }),
  data = rush.text(rush.corpus "libtorch"),
  train = { micro_batch = 2, seq_len = gpu and 2048 or 256, steps = 6, warmup = 2, lr = 3e-4 },
}

local first = experts(8, 2)
first.over = "base"
local second = experts(16, 4)
second.over = "base"

exp:ladder {
  rush.rung("16 experts, 4 per token", second),
  rush.rung("8 experts, 2 per token", first),
  rush.rung("fused AdamW", "fused_adamw"),
  rush.rung("FlashAttention", "flash_attention"),
  rush.rung("fused kernels", "fused_kernels"),
  rush.rung("dense, fused AdamW", "fused_adamw", {}, { over = "base" }),
  rush.rung("dense, all of them", { plugins = { "flash_attention", "fused_kernels" } }),
}

exp:run({ rounds = 3 }):report()
