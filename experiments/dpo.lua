-- What does learning from preferences cost, and what pays in it?
--
-- Direct preference optimization beside an adapter: each step is a forward of the reference, which is the model without
-- its adapter, and a forward and a backward of the model, on pairs of answers. Without your own file, the pairs are
-- made from the C++ headers of LibTorch. The prompt is the first half of a text. Its second half is the chosen answer,
-- and the second half of another text is the rejected answer.
--
--   ./optrush run experiments/dpo.lua
--   ./optrush run experiments/dpo.lua --arg data=pairs.jsonl --arg checkpoint=path/to/hf-folder
local rush = require "optrush"
local own = require "own_model"

local gpu = rush.device() == "cuda"
local file = rush.arg("data", "")
local model = own.model(gpu and rush.llama "llama-3.2-1b" or rush.llama("tiny", { n_layers = 2, vocab_size = 256 }))
local data = rush.preferences(file ~= "" and file or rush.corpus "libtorch")
local train = { micro_batch = 4, seq_len = gpu and 1024 or 512, steps = 8, warmup = 2, lr = 3e-4 }
local plugins = {
  { "lora", {
    rank = 16,
    alpha = 32,
    target_modules = { "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj" },
  } },
  { "dpo", { beta = 0.1 } },
  "dynamic_padding",
  "fused_adamw",
}

local exp = rush.experiment {
  name = "dpo",
  question = "What does learning from preferences cost, and what pays in it?",
  model = model,
  data = data,
  train = own.train(model, train, plugins, data),
  plugins = plugins,
  timeout = 1800,
}

-- The loss sums over hundreds of tokens and shows every rounding, so bf16 comes after the rungs that are compared in
-- fp32.
exp:ladder {
  rush.rung("FlashAttention", "flash_attention"),
  rush.rung("fused loss", "fused_linear_cross_entropy"),
  rush.rung("mixed precision", "mixed_precision", { dtype = "bf16" }),
  rush.rung("NF4 weights", "nf4"),
}

exp:run({ within = 0.03, at_most = "5m" }):report()
