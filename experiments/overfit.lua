-- Does every stack learn one batch by heart?
--
-- The oldest check of a training: with the same few sequences in every step, the loss has to fall towards zero. It
-- finds a mask that lets a token see the next one, a gradient that is lost, a rank whose part does not count. A rung
-- whose last loss is not below 0.1 is broken. The grid has full fine-tuning, LoRA and QLoRA, one document a sequence
-- and packed ones, one process and ddp and fsdp on several:
--
--   ./optrush run experiments/overfit.lua
--   ./optrush run experiments/overfit.lua --arg checkpoint=FOLDER --arg steps=400
--
-- Any other experiment makes the same check with `--set train.overfit=0.1 --set train.steps=200`.
local rush = require "optrush"
local own = require "own_model"

local steps = rush.arg("steps", 150)
local model = own.model(rush.llama("tiny", { n_layers = 2, dim = 128, ffn_dim = 256, vocab_size = 256 }))
local data = rush.documents(rush.corpus "libtorch")
local train = { micro_batch = 4, seq_len = 64, steps = steps, warmup = 2, lr = 3e-3, weight_decay = 0, overfit = 0.1 }
train = own.train(model, train, {}, data)
local batch = train.micro_batch

local exp = rush.experiment {
  name = "overfit",
  question = "Does every stack learn one batch by heart?",
  model = model,
  data = data,
  train = train,
  timeout = 1800,
}

local matrices = { "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj" }
local adapters = { "lora", { rank = 32, alpha = 64, target_modules = matrices } }
local trained = {
  rush.rung("full", {}),
  rush.rung("LoRA", { plugins = { adapters }, train = { lr = 1e-2 } }),
  rush.rung("QLoRA", { plugins = { adapters, "nf4" }, train = { lr = 1e-2 } }),
}
local rows = { rush.rung("padded", {}), rush.rung("packed", "packing") }

local ranks = { rush.rung("1 process", {}) }
for _, size in ipairs { 2, 4 } do
  if size <= math.max(2, rush.ranks()) and batch % size == 0 then
    local share = { world_size = size, micro_batch = batch // size }
    ranks[#ranks + 1] = rush.rung("ddp " .. size, { plugins = { "ddp" }, train = share })
    for _, stage in ipairs { 2, 3 } do
      local sharded = { "fsdp", { stage = stage } }
      ranks[#ranks + 1] = rush.rung("fsdp " .. stage .. " on " .. size, { plugins = { sharded }, train = share })
    end
  end
end

exp:grid({ trained, rows, ranks }, {
  axes = { "trained", "sequences", "ranks" },
  columns = { "loss", "peak_memory" },
})

exp:run({ rounds = 1 }):report()
