-- What does fine-tuning on documents cost, and how much of it is padding?
--
-- Documents of very different lengths, one in each sequence and then packed, several in one; then adapters instead of
-- every matrix (LoRA), and frozen matrices in 4 bits (QLoRA). Tokens a second are those that the model processes, so
-- padding counts as nothing; those that the loss is taken on stand beside them. Without a file of your own the documents
-- are the C++ headers of LibTorch.
--
--   ./optrush run experiments/sft.lua
--   ./optrush tokenize chats.jsonl tokens.jsonl --model path/to/hf-folder
--   ./optrush run experiments/sft.lua --arg data=tokens.jsonl --arg checkpoint=path/to/hf-folder
local rush = require "optrush"

local gpu = rush.device() == "cuda"
local file, checkpoint = rush.arg("data", ""), rush.arg("checkpoint", "")

local function model()
  if checkpoint ~= "" then return rush.checkpoint(checkpoint) end
  return gpu and rush.llama "llama-3.2-1b" or rush.llama("tiny", { n_layers = 2, vocab_size = 256 })
end

local exp = rush.experiment {
  name = "sft",
  question = "What does fine-tuning on documents cost, and how much of it is padding?",
  model = model(),
  data = rush.documents(file ~= "" and file or rush.corpus "libtorch"),
  train = { micro_batch = 4, seq_len = gpu and 4096 or 2048, steps = 8, warmup = 2, lr = 3e-4 },
  plugins = { "flash_attention", "fused_adamw", { "mixed_precision", { dtype = "bf16" } } },
  timeout = 1800,
}

exp:ladder {
  rush.rung("packing", "packing"),
  rush.rung("LoRA", "lora", {
    rank = 16,
    alpha = 32,
    target_modules = { "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj" },
  }),
  rush.rung("4-bit matrices", "nf4"),
}

exp:run({ within = 0.03, at_most = "5m" }):report()
