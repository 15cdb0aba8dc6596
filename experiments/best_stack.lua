-- Which of our optimizations make the fastest stack on this machine, and in which order do they pay?
--
-- exp:search measures each part alone, stacks those that pay, and then tries every single change (remove, add or
-- exchange one part) until none is measurably faster. It measures the result once more as a ladder, the most effective
-- part first. The report lists everything that was tried. All parts train the same model in the same precision: bf16 if
-- it is faster here, otherwise fp32. It stacks at most one choice each for the batch, the loss and the memory of the
-- blocks. On a CPU the model is small, so that all of it takes minutes on two cores; on a GPU it has blocks of Llama
-- 3.2 1B.
--
--   ./optrush run experiments/best_stack.lua                  ten minutes at most
--   ./optrush run experiments/best_stack.lua --preset full    forty, a larger model, and the compiler
--   ./optrush run experiments/best_stack.lua --arg memory=2GB no stack that needs more
--   ./optrush run experiments/best_stack.lua --arg checkpoint=FOLDER --arg precision=bf16
local rush = require "optrush"
local own = require "own_model"
local precision = require "chosen_precision"

local full = rush.preset { "short", "full" } == "full"
local memory = rush.arg("memory", "")
local gpu = rush.device() == "cuda"

local model = rush.llama("tiny", { n_layers = 4 })
if full then model = rush.llama("small", { n_layers = 4 }) end
if gpu then model = rush.llama("llama-3.2-1b", { n_layers = full and 16 or 4 }) end
model = own.model(model)
local plugins = precision.plugins()
local train = { micro_batch = gpu and 2 or 4, seq_len = gpu and 2048 or 256, steps = full and 8 or 6, warmup = 2 }
train = own.train(model, train, plugins)
local batch = train.micro_batch

local exp = rush.experiment {
  name = "best_stack",
  question = "Which of the shipped optimizations make the fastest stack on this machine? In " .. precision.why .. ".",
  model = model,
  data = rush.text(rush.corpus "libtorch"),
  plugins = plugins,
  train = train,
}

local parts = {
  rush.rung("fused AdamW", "fused_adamw"),
  rush.rung("FlashAttention", "flash_attention"),
  rush.rung("fused kernels", "fused_kernels"),
  rush.rung("fused loss", "fused_linear_cross_entropy"),
  {
    rush.rung("batch x2", { train = { micro_batch = 2 * batch } }),
    rush.rung("batch x4", { train = { micro_batch = 4 * batch } }),
  },
  { rush.rung("checkpointing", "activation_checkpointing"), rush.rung("SwiGLU recompute", "swiglu_recompute") },
}
if not gpu then parts[#parts + 1] = rush.rung("caching allocator", "cpu_allocator") end
if full or gpu then parts[#parts + 1] = rush.rung("compile", "compile") end

exp:search(parts, {
  at_most = full and "40m" or "10m",
  within = full and 0.02 or 0.03,
  memory = memory ~= "" and memory or nil,
}):report()
