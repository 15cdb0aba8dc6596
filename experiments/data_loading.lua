-- What does reading the data cost, and does preparing it ahead pay?
--
-- The same Llama on random tokens, on text that is read from its files at every step, on documents, and on packed ones,
-- each with batches prepared when they are needed, and one step ahead in a separate thread. The thread can save the
-- time in the column `data`. Your own token file is a fifth kind.
--
--   ./optrush run experiments/data_loading.lua
--   ./optrush run experiments/data_loading.lua --arg tokens=corpus.bin --arg checkpoint=FOLDER
local rush = require "optrush"
local own = require "own_model"

local gpu = rush.device() == "cuda"
local tokens = rush.arg("tokens", "")

local model = own.model(gpu and rush.llama "llama-3.2-1b" or rush.llama("tiny", { n_layers = 2 }))
local plugins = { "flash_attention", "fused_adamw", { "mixed_precision", { dtype = "bf16" } } }
local train = { micro_batch = 4, seq_len = gpu and 4096 or 512, steps = 10, warmup = 3, lr = 3e-4 }

local exp = rush.experiment {
  name = "data_loading",
  question = "What does reading the data cost, and does preparing it ahead pay?",
  model = model,
  train = own.train(model, train, plugins),
  plugins = plugins,
}

local kinds = {
  rush.rung("random tokens", { data = rush.random() }),
  rush.rung("text", { data = rush.text(rush.corpus "libtorch") }),
  rush.rung("documents", { data = rush.documents(rush.corpus "libtorch") }),
  rush.rung("packed documents", "packing", {}, { data = rush.documents(rush.corpus "libtorch") }),
}
if tokens ~= "" then kinds[#kinds + 1] = rush.rung("token file", { data = rush.tokens(tokens) }) end

exp:grid({ kinds, { rush.rung "when needed", rush.rung("one step ahead", "prefetch") } }, {
  axes = { "data", "made" },
  columns = { "step_time", "data_time", "peak_memory" },
  against = "when needed",
})

exp:run({ within = 0.02, at_most = "4m" }):report()
