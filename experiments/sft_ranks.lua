-- How is a 3B model tuned on chats by three ranks, and what does each part of the recipe buy?
--
-- The base is the published form: bf16 weights and states, sharded over the ranks, blocks recomputed, gradients
-- accumulated and clipped, a warm-up and a cosine, loss on the answers alone, one document in each sequence, padded to
-- the longest of the micro-batch. Then come fused kernels with the fused loss, fused AdamW, and packing, which leaves
-- out padding. Tokens per second count the tokens that the model processes, so the report also lists the share of
-- positions that are padding. On GPUs the model is Llama 3.2 3B. On a CPU three processes train a small model.
--
--   ./optrush run experiments/sft_ranks.lua
--   ./optrush run experiments/sft_ranks.lua --arg data=chats.jsonl --arg checkpoint=path/to/hf-folder
local rush = require "optrush"
local own = require "own_model"

local gpu = rush.device() == "cuda"
local file = rush.arg("data", "")
local model = own.model(gpu and rush.llama "llama-3.2-3b" or rush.llama("tiny", { n_layers = 2, vocab_size = 256 }))
local data = rush.documents(file ~= "" and file or rush.corpus "libtorch")
local plugins = { "dynamic_padding", "fsdp", { "activation_checkpointing", { policy = "full" } }, "clip_grad_norm" }
if gpu then table.insert(plugins, "flash_attention") end

local train = own.train(model, {
  world_size = 3,
  micro_batch = gpu and 4 or 2,
  accumulation = 2,
  seq_len = gpu and 2048 or 512,
  steps = 6,
  warmup = 2,
  dtype = "bf16",
  lr = 2e-5,
  lr_warmup = 3,
  lr_decay = "cosine",
  lr_steps = 100,
  lr_min = 0.1,
}, plugins, data)

local exp = rush.experiment {
  name = "sft_ranks",
  question = "What does each part of a published recipe buy when three ranks tune a model on documents?",
  model = model,
  data = data,
  train = train,
  plugins = plugins,
  timeout = 1800,
}

local published_packing = { speedup = 2, source = "Hugging Face, packing by flattening", on = "8 A100-80GB, FLAN" }
exp:ladder {
  rush.rung("fused kernels and loss", {
    plugins = { "fused_kernels", "fused_linear_cross_entropy" },
    expect = { speedup = 1.2, memory = 0.4, source = "Liger Kernel's README", on = "8 A100-80GB, Llama 3 8B, FSDP" },
  }),
  rush.rung("fused AdamW", "fused_adamw"),
  rush.rung("packing", { plugins = { "packing" }, replace = "dynamic_padding", expect = published_packing }),
}

exp:run({ within = 0.03, at_most = "6m" }):report()
