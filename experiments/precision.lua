-- What do fewer bits buy, and what do they change of the loss?
--
-- The same Llama from fp32 on: matmuls in bf16 between fp32 weights (autocast), weights and activations that are bf16
-- themselves with fp32 masters in the optimizer, and linears that multiply in fp8 with one scale a tensor or one a row.
-- Each loss curve is compared with the last rung in fp32. A CPU multiplies fp8 by converting it, so there those two
-- rungs show numerics and no speed: --only leaves them out. On a GPU, PyTorch compiled by blocks is beside them, in
-- bf16 weights and in torchao's float8.
--
--   ./optrush run experiments/precision.lua
--   ./optrush run experiments/precision.lua --arg checkpoint=FOLDER
local rush = require "optrush"
local own = require "own_model"
local pytorch = require "peers.pytorch"

local gpu = rush.device() == "cuda"

local model = own.model(gpu and rush.llama "llama-3.2-1b" or rush.llama("small", { n_layers = 4 }))
local train = { micro_batch = 2, seq_len = gpu and 2048 or 256, steps = 10, warmup = 3, lr = 3e-4 }

local exp = rush.experiment {
  name = "precision",
  question = "What do fewer bits buy, and what do they change of the loss?",
  model = model,
  data = rush.text(rush.corpus "libtorch"),
  train = own.train(model, train),
}

local ladder = {
  rush.rung("FlashAttention", "flash_attention"),
  rush.rung("fused AdamW", "fused_adamw"),
  rush.rung("bf16 autocast", "mixed_precision", { dtype = "bf16" }),
  rush.rung("bf16 weights", "bf16_weights", {}, { replace = { "mixed_precision", "fused_adamw" } }),
  rush.rung("fp8, one scale a tensor", "float8", { recipe = "tensorwise" }),
  rush.rung("fp8, one scale a row", "float8", { recipe = "rowwise" }, { replace = "float8" }),
}
if gpu then
  local function peer(name, ...)
    local with = { "sdpa", "bf16_weights", ... }
    ladder[#ladder + 1] = pytorch { name = name, with = with, compile = "default", form = "blocks" }
  end
  peer "torch.compile by blocks"
  peer("torchao float8", "float8")
end
exp:ladder(ladder)

exp:run({ rounds = 3 }):report()
