-- When does the S × S matrix stop paying?
--
-- Attention alone, forward and backward, over sequence lengths: plain, with the scores in memory, and fused, which
-- never holds them. Memory grows with the square of the length or with the length itself; time with the square in both,
-- but at another rate. Longer sequences on a GPU than on a CPU.
--
--   ./optrush run experiments/attention.lua
local rush = require "optrush"

local gpu = rush.device() == "cuda"
local longest = gpu and 16384 or 4096

local exp = rush.experiment {
  name = "attention",
  question = "When does the S x S matrix stop paying?",
  model = rush.operator("attention", gpu and { dim = 2048, n_heads = 16 } or { dim = 256, n_heads = 4 }),
  train = { micro_batch = 1, seq_len = 256, steps = 10, warmup = 3, lr = 0.01 },
}

local lengths = {}
local length = 256
while length <= longest do
  lengths[#lengths + 1] = rush.rung("S " .. length, { train = { seq_len = length } })
  length = 2 * length
end

exp:grid({
  lengths,
  { rush.rung "plain", rush.rung("fused", "flash_attention") },
}, {
  axes = { "sequence", "attention" },
  columns = { "forward_time", "backward_time", "peak_memory", "forward_flops", "backward_flops" },
  against = "plain",
  x = "train.seq_len",
  curves = { "peak_memory", "forward_time", "backward_time" },
})

exp:run({ rounds = 3 }):report()
