-- Does every stack learn one batch by heart?
--
-- The oldest check of a training: with the same few sequences in every step, the loss has to fall towards zero. It
-- finds a mask that lets a token see the next one, a gradient that is lost, a rank whose part does not count. A rung
-- whose last training loss is not below 0.1 is broken. The grid has one document per sequence and packed ones, in one
-- process and under ddp and fsdp on several. All parameters are trained: adapters beside random weights cannot learn a
-- batch.
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

exp:grid({ rows, ranks }, {
  axes = { "sequences", "ranks" },
  columns = { "loss", "peak_memory" },
})

exp:run({ rounds = 1 }):report()
