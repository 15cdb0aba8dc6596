-- What does an update keep in memory, and what does keeping less of it cost?
--
-- AdamW in fp32 keeps 12 bytes a parameter beside the parameter: two moments and the gradient. The same Llama with the
-- plain optimizer, with a fused one, then with each parameter updated in the backward, so that gradients are freed one
-- by one, and with moments in 8 bits, a quarter of their memory. Activations are recomputed and the loss is fused, as
-- where a model just fits, so that the peak of a step is in the update. Loss curves are compared with those of the rung
-- below. On a CPU decoding costs more than fewer bytes save; a GPU waits for memory here.
--
-- Three other optimizers stand beside the fused AdamW: Lion keeps one moment, Adafactor sums of rows and columns, and
-- Schedule-Free AdamW averages its weights. They are other update rules, so this compares the cost of their steps and
-- their memory; what their losses are worth, time_to_loss.lua asks.
--
--   ./optrush run experiments/optimizers.lua
--   ./optrush run experiments/optimizers.lua --arg checkpoint=FOLDER
local rush = require "optrush"
local own = require "own_model"

local gpu = rush.device() == "cuda"

local model = own.model(gpu and rush.llama "llama-3.2-1b" or rush.llama("small", { n_layers = 4 }))
local train = { micro_batch = gpu and 2 or 1, seq_len = gpu and 2048 or 256, steps = 10, warmup = 3, lr = 3e-4 }
local plugins = {
  "flash_attention",
  { "mixed_precision", { dtype = "bf16" } },
  "fused_linear_cross_entropy",
  { "activation_checkpointing", { policy = "full" } },
}

local exp = rush.experiment {
  name = "optimizers",
  question = "What does an update keep in memory, and what does keeping less of it cost?",
  model = model,
  data = rush.text(rush.corpus "libtorch"),
  train = own.train(model, train, plugins),
  plugins = plugins,
}

local function beside(name, plugin, settings)
  return rush.rung(name, plugin, {}, { over = "fused AdamW", replace = "fused_adamw", train = settings })
end

exp:ladder {
  rush.rung("fused AdamW", "fused_adamw"),
  rush.rung("in the backward", "optimizer_in_backward"),
  rush.rung("8-bit AdamW", "adamw_8bit", {}, { replace = "fused_adamw" }),
  beside("Lion", "lion", { lr = 1e-4 }),
  beside("Adafactor", "adafactor", { lr = 1e-2 }),
  beside("Schedule-Free AdamW", "schedule_free"),
}

exp:run({ within = 0.03, at_most = "6m" }):report()
