-- Which optimizer reaches a loss first, and at which learning rate?
--
-- Speed alone does not show how soon a model is good: an optimizer may take longer for a step and need fewer steps.
-- AdamW and Muon train the same Llama on text, each at several learning rates, until the loss on held-out sequences is
-- at the target. The time is the training time alone.
--
--   ./optrush run experiments/time_to_loss.lua
--   ./optrush run experiments/time_to_loss.lua --arg target=2.2 --set train.steps=600
--   ./optrush run experiments/time_to_loss.lua --arg checkpoint=FOLDER --arg target=1.1
--   ./optrush run experiments/time_to_loss.lua --arg seeds=5      # with intervals over seeds; runs end at the target
--   ./optrush run experiments/time_to_loss.lua --arg more=true    # with Lion, Adafactor and Schedule-Free AdamW
--
-- Each optimizer is tried at the same learning rates, which is the same effort. With more=true the rates reach further
-- down and up, because Lion's best one is several times smaller than AdamW's, and Adafactor's several times larger.
local rush = require "optrush"
local own = require "own_model"

local gpu = rush.device() == "cuda"

local model = own.model(gpu and rush.llama("small", { n_layers = 12 }) or rush.llama("tiny", { n_layers = 2 }))
local seeds = rush.arg("seeds", 0)  -- 0: one run of each, with one seed
local plugins = { "flash_attention", "fused_adamw", "clip_grad_norm" }
local train = {
  micro_batch = gpu and 32 or 16,
  seq_len = gpu and 1024 or 256,
  steps = 150,
  warmup = 2,
  lr = 1e-3,
  lr_warmup = 20,
}

local exp = rush.experiment {
  name = "time_to_loss",
  question = "Which optimizer reaches a loss first, and at which learning rate?",
  model = model,
  data = rush.text(rush.corpus "libtorch"),
  train = own.train(model, train, plugins),
  plugins = plugins,
  validate = { every = 10, sequences = 64 },
  target_loss = tonumber(rush.arg("target", "2.3")),
  seeds = seeds > 0 and seeds or nil,
  stop_behind = seeds > 0 and 1.5 or nil,
  timeout = 3600,
}

local rates, optimizers = { 5e-4, 1e-3, 2e-3, 4e-3, 8e-3 }, { rush.rung "AdamW", rush.rung("Muon", "muon") }
if rush.arg("more", false) then
  rates = { 1.25e-4, 2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2 }
  local others = { { "Lion", "lion" }, { "Adafactor", "adafactor" }, { "Schedule-Free AdamW", "schedule_free" } }
  for _, other in ipairs(others) do
    optimizers[#optimizers + 1] = rush.rung(other[1], other[2], {}, { replace = "fused_adamw" })
  end
end
for i, lr in ipairs(rates) do
  rates[i] = rush.rung(string.format("lr %g", lr), { train = { lr = lr } })
end

exp:grid({ rates, optimizers }, {
  axes = { "learning rate", "optimizer" },
  columns = { "step_time", "validation_loss", "steps_to_loss", "time_to_loss" },
  against = "AdamW",
  x = "train.lr",
  curves = { "time_to_loss", "validation_loss" },
})

exp:run(seeds == 0 and { rounds = 1 } or nil):report()
