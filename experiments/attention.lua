-- When does the S × S matrix stop paying?
--
-- Attention alone, forward and backward, over sequence lengths: plain, with the scores in memory, and fused, without
-- them. Memory grows with the square of the length if plain, with the length if fused; time grows with the square in
-- both, at different rates. On a GPU it is in bf16, with FlashAttention 2 and cuDNN's kernel, 16,384 tokens a step and
-- sequences of up to 65,536. A plain form that does not fit into the card is a row with the memory that it needs.
--
--   ./optrush run experiments/attention.lua
--   ./optrush run experiments/attention.lua --arg checkpoint=FOLDER     width and heads of this Hugging Face folder
local rush = require "optrush"
local own = require "own_model"

local gpu = rush.device() == "cuda"
local tokens = gpu and 16384 or 0
local forms = gpu
    and {
      rush.rung "plain",
      rush.rung("flash", "flash_attention", { kernel = "flash" }),
      rush.rung("cuDNN", "flash_attention", { kernel = "cudnn" }),
    }
  or { rush.rung "plain", rush.rung("fused", "flash_attention") }

local sizes = gpu and { dim = 2048, n_heads = 16 } or { dim = 256, n_heads = 4 }
if own.given then sizes = { dim = own.sizes().dim, n_heads = own.sizes().n_heads } end

local exp = rush.experiment {
  name = "attention",
  question = "When does the S x S matrix stop paying?",
  model = rush.operator("attention", sizes),
  train = {
    micro_batch = 1,
    seq_len = 256,
    steps = 10,
    warmup = 3,
    lr = 0.01,
    dtype = gpu and "bf16" or "fp32",
  },
}

local lengths = {}
local length, factor, longest = gpu and 1024 or 256, gpu and 4 or 2, gpu and 65536 or 4096
while length <= longest do
  local train = { seq_len = length, micro_batch = math.max(1, tokens // length) }
  lengths[#lengths + 1] = rush.rung("S " .. length, { train = train })
  length = factor * length
end

exp:grid({ lengths, forms }, {
  axes = { "sequence", "attention" },
  columns = { "forward_time", "backward_time", "peak_memory", "forward_flops", "backward_flops" },
  against = "plain",
  x = "train.seq_len",
  curves = { "peak_memory", "forward_time", "backward_time" },
})

exp:run({ rounds = 3 }):report()
