-- Which optimizations pay on this machine?
--
-- A small Llama is trained on real text, the C++ headers of the installed LibTorch, from a plain fp32 step on, with one
-- optimization after the other, each on top of the last. It takes less than five minutes on two cores:
--
--   ./optrush run experiments/quickstart.lua
--   ./optrush run experiments/quickstart.lua --arg checkpoint=FOLDER     does it pay for MY model?
--
-- The report is in reports/quickstart/local/report.md. FOLDER is a Hugging Face folder; the length of the sequences and
-- the batch then suit its model. To ask about any other model, change `model` and `train`.
local rush = require "optrush"
local own = require "own_model"

local model = own.model(rush.llama("tiny", { n_layers = 4 })) -- or rush.llama "llama-3.2-1b", or every field by hand
local train = own.train(model, { micro_batch = 4, seq_len = 512, steps = 8, warmup = 2, seed = 1, lr = 3e-4 })
local twice = 2 * train.micro_batch

local exp = rush.experiment {
  name = "quickstart",
  question = "Which optimizations pay on this machine?",
  model = model,
  data = rush.text(rush.corpus "libtorch"), -- or rush.random(), rush.text "folder", rush.tokens "file.bin"
  train = train,
}

exp:ladder {
  rush.rung("bf16 autocast", "mixed_precision", { dtype = "bf16" }),
  rush.rung("fused AdamW", "fused_adamw"),
  rush.rung("FlashAttention", "flash_attention"),
  rush.rung("micro-batch " .. twice, { train = { micro_batch = twice } }),
  rush.rung("checkpointing", "activation_checkpointing", { policy = "full" }),
}

exp:run({ within = 0.03, at_most = "4m" }):report()
