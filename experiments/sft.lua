-- What does fine-tuning on documents cost, and how much of it is padding?
--
-- Documents of very different lengths: one in each sequence, padded to the longest of the micro-batch, and then packed,
-- several in one; then adapters instead of every matrix (LoRA), and frozen matrices in 4 bits (QLoRA). Tokens per
-- second count the processed tokens without padding; the table also lists trained tokens. Without your own file the
-- documents are the C++ headers of LibTorch that the program uses.
--
--   ./optrush run experiments/sft.lua
--   ./optrush run experiments/sft.lua --arg data=chats.jsonl --arg checkpoint=path/to/hf-folder
--
-- Chats, prompts and texts become tokens of the checkpoint's tokenizer; `optrush tokenize` has options for that.
local rush = require "optrush"
local own = require "own_model"

local gpu = rush.device() == "cuda"
local file = rush.arg("data", "")
local model = own.model(gpu and rush.llama "llama-3.2-1b" or rush.llama("tiny", { n_layers = 2, vocab_size = 256 }))
local data = rush.documents(file ~= "" and file or rush.corpus "libtorch")
local plugins = { "dynamic_padding", "flash_attention", "fused_adamw", { "mixed_precision", { dtype = "bf16" } } }
local train = { micro_batch = 4, seq_len = gpu and 4096 or 2048, steps = 8, warmup = 2, lr = 3e-4 }

local exp = rush.experiment {
  name = "sft",
  question = "What does fine-tuning on documents cost, and how much of it is padding?",
  model = model,
  data = data,
  train = own.train(model, train, plugins, data),
  plugins = plugins,
  timeout = 1800,
}

exp:ladder {
  rush.rung("packing", { plugins = { "packing" }, replace = "dynamic_padding" }),
  rush.rung("LoRA", "lora", {
    rank = 16,
    alpha = 32,
    target_modules = { "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj" },
  }),
  rush.rung("NF4 weights", "nf4"),
}

exp:run({ within = 0.03, at_most = "5m" }):report()
