-- How little memory does fine-tuning take, and what does that cost?
--
-- From full fine-tuning down: adapters instead of every matrix (LoRA), frozen matrices in 4 bits (QLoRA), and
-- recomputed activations. With several devices, two of them also share shards (FSDP + QLoRA), with the same number of
-- sequences a step. On a GPU it is Llama 3.2 1B, with your own weights by --arg checkpoint=FOLDER.
--
--   ./optrush run experiments/qlora.lua
--   ./optrush run experiments/qlora.lua --arg checkpoint=path/to/hf-folder
local rush = require "optrush"
local own = require "own_model"

local gpu = rush.device() == "cuda"
local model = own.model(gpu and rush.llama "llama-3.2-1b" or rush.llama("small", { n_layers = 4 }))
local plugins = { "flash_attention", "fused_adamw", { "mixed_precision", { dtype = "bf16" } } }
local train = { micro_batch = 4, seq_len = gpu and 2048 or 128, steps = 6, warmup = 2, lr = 3e-4 }
train = own.train(model, train, plugins)

local exp = rush.experiment {
  name = "qlora",
  question = "How little memory does fine-tuning take, and what does that cost?",
  model = model,
  data = rush.text(rush.corpus "libtorch"),
  train = train,
  plugins = plugins,
  timeout = 1800,
}

local ladder = {
  rush.rung("LoRA", "lora", {
    rank = 16,
    alpha = 32,
    target_modules = { "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj" },
  }),
  rush.rung("NF4 weights", "nf4"),
  rush.rung("checkpointing", "activation_checkpointing", { policy = "full" }),
}
if rush.ranks() > 1 and train.micro_batch > 1 then -- of one sequence a step there is nothing to share
  local share = { world_size = 2, micro_batch = train.micro_batch // 2 }
  ladder[#ladder + 1] = rush.rung("FSDP", "fsdp", {}, { train = share })
end
exp:ladder(ladder)

exp:run({ within = 0.03, at_most = "6m" }):report()
