-- What can this machine do, and which limit applies to each operator of the block?
--
-- Square matrix products by size and type, at powers of two and next to one, then every operator of the block with its
-- FLOPs per byte and the ridge at which bandwidth and arithmetic are equal limits: in bf16 on a GPU, in fp32 on a CPU.
-- The context of the report has the bandwidth of reading, writing, copying and of a triad.
--
--   ./optrush run experiments/hardware.lua
--   ./optrush run experiments/hardware.lua --arg checkpoint=FOLDER     operators as wide as in this Hugging Face folder
local rush = require "optrush"
local own = require "own_model"

local gpu = rush.device() == "cuda"
local exp = rush.experiment {
  name = "hardware",
  question = "What can this machine do, and which limit applies to each operator of the block?",
  model = rush.operator("linear", { dim = 256, ["repeat"] = 4 }),
  -- This measures rates, not progress: updates are so small that bf16 parameters are precise enough.
  train = { micro_batch = 1, seq_len = 256, steps = 10, warmup = 3, lr = 1e-6 },
}

-- Tokens and widths equal: a product of two square matrices, forward, and two backward.
local sizes = {}
for _, size in ipairs(gpu and { 1024, 4095, 4096, 4097, 8192 } or { 255, 256, 257, 512, 1024 }) do
  sizes[#sizes + 1] = rush.rung(tostring(size), { model = { dim = size }, train = { seq_len = size } })
end
exp:grid({ sizes, { rush.rung "fp32", rush.rung("bf16", { train = { dtype = "bf16" } }) } }, {
  axes = { "size", "type" },
  columns = { "forward_flops", "backward_flops", "forward_time", "backward_time" },
  x = "model.dim",
  curves = { "forward_flops", "backward_flops" },
})

-- The operators of a block, at one width.
local width, heads, vocabulary = gpu and 4096 or 1024, gpu and 64 or 16, 8192
if own.given then
  local model = own.sizes()
  width, heads, vocabulary = model.dim, model.n_heads, model.vocab_size
end
local operators = {}
for _, op in ipairs { "norm", "add_norm", "position", "attention", "swiglu", "linear", "head_loss" } do
  operators[#operators + 1] = rush.rung(op, {
    model = rush.operator(op, {
      dim = width,
      n_heads = heads,
      vocab_size = vocabulary,
      ["repeat"] = op ~= "head_loss" and 4 or 1,
    }),
    train = { micro_batch = gpu and 8 or 4, seq_len = 1024, dtype = gpu and "bf16" or "fp32" },
  })
end
exp:grid({ operators }, {
  axes = { "operator" },
  columns = { "intensity", "forward_bandwidth_share", "backward_bandwidth_share", "forward_flops", "backward_flops" },
})

exp:run({ rounds = 3 }):report()
