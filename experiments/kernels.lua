-- What does fusing each operator of the block buy, and how near is it to the memory's limit?
--
-- Norm, residual and norm, rotary embedding and SwiGLU, each alone: made of LibTorch's operators, and as one kernel
-- forward and one backward. They do little arithmetic, so their least time is the bytes that any implementation must
-- move, divided by the measured bandwidth. The tensors that a step keeps are several times as large as a last-level
-- cache. On a GPU activations are bf16, as in a training step there, and each is 128 or 256 MiB, by the card's memory.
--
--   ./optrush run experiments/kernels.lua
--   ./optrush run experiments/kernels.lua --arg checkpoint=FOLDER     width and heads of this Hugging Face folder
local rush = require "optrush"
local own = require "own_model"

local gpu = rush.device() == "cuda"
local card = rush.gpu()
local batch = not gpu and 8 or card and card.memory_bytes >= 100e9 and 64 or 32

local sizes = own.sizes() or { dim = 2048, n_heads = 16 }

-- Repeated until what a step keeps is near 1 GiB on a CPU: SwiGLU keeps twice as much as the others.
local function operator(op)
  local count = math.max(1, (op == "swiglu" and 4 or 8) * 2048 // sizes.dim)
  return rush.operator(op, { dim = sizes.dim, n_heads = sizes.n_heads, ["repeat"] = count })
end

local operators = {}
for _, op in ipairs { "norm", "add_norm", "position", "swiglu" } do
  operators[#operators + 1] = rush.rung(op, { model = operator(op) })
end

local exp = rush.experiment {
  name = "kernels",
  question = "What does fusing each operator of the block buy, and how near is it to the memory's limit?",
  model = operator "norm",
  train = {
    micro_batch = batch,
    seq_len = 1024,
    steps = 10,
    warmup = 3,
    lr = 0.01,
    dtype = gpu and "bf16" or "fp32",
  },
}

exp:grid({
  operators,
  { rush.rung "unfused", rush.rung("fused", "fused_kernels") },
}, {
  axes = { "operator", "form" },
  columns = {
    "forward_time", "backward_time", "forward_bandwidth", "forward_bandwidth_share", "backward_bandwidth",
    "backward_bandwidth_share", "peak_memory",
  },
  against = "unfused",
})

exp:run({ rounds = 3 }):report()
