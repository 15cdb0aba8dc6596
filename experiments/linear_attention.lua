-- How far is Gated DeltaNet from attention in speed, and what closes the gap?
--
-- A linear attention has a state of fixed size, so its time grows with the length of a sequence, while the time of
-- attention grows with the square. People who train such models report that they are slower than a Llama of their size
-- at the usual lengths. The same decoder is trained with attention and with Gated DeltaNet in all layers, at several
-- lengths: each in its plain form and with its fused kernels. A step has the same number of tokens at each length.
--
--   ./optrush run experiments/linear_attention.lua
--   ./optrush run experiments/linear_attention.lua --arg checkpoint=FOLDER     sizes of this Hugging Face folder
local rush = require "optrush"
local own = require "own_model"

local gpu = rush.device() == "cuda"
local tokens = gpu and 16384 or 4096
local sizes = gpu and { dim = 2048, n_heads = 16, n_kv_heads = 4, ffn_dim = 5632, n_layers = 8, vocab_size = 32000 }
  or { dim = 512, n_heads = 8, n_kv_heads = 2, ffn_dim = 1408, n_layers = 2, vocab_size = 8192 }
if own.given then
  for name in pairs(sizes) do
    sizes[name] = own.sizes()[name]
  end
end
local delta_net = gpu and { key_heads = 8, value_heads = 16, key_dim = 128, value_dim = 128 }
  or { key_heads = 4, value_heads = 8, key_dim = 64, value_dim = 64 }

local exp = rush.experiment {
  name = "linear_attention",
  question = "How far is Gated DeltaNet from attention in speed, and what closes the gap?",
  model = rush.llama("tiny", sizes),
  plugins = gpu and { { "mixed_precision", { dtype = "bf16" } }, "fused_adamw", "fused_kernels" }
    or { "fused_adamw", "fused_kernels", "cpu_allocator" },
  train = { micro_batch = tokens // 512, seq_len = 512, steps = 5, warmup = 2, lr = 3e-4 },
}

local lengths = {}
for _, length in ipairs(gpu and { 2048, 8192, 32768 } or { 512, 2048, 4096 }) do
  local train = { seq_len = length, micro_batch = math.max(1, tokens // length) }
  lengths[#lengths + 1] = rush.rung("S " .. length, { train = train })
end
local mixers = {
  rush.rung "attention",
  rush.rung("FlashAttention", "flash_attention"),
  rush.rung("Gated DeltaNet", { model = { delta_net = delta_net } }),
  rush.rung("Gated DeltaNet, fused", "fused_delta_net", {}, { model = { delta_net = delta_net } }),
}

exp:grid({ lengths, mixers }, {
  axes = { "sequence", "mixer" },
  columns = { "tokens_per_second", "forward_time", "backward_time", "peak_memory", "mfu" },
  against = "FlashAttention",
  x = "train.seq_len",
  curves = { "tokens_per_second", "peak_memory" },
})

exp:run({ rounds = 3 }):report()
