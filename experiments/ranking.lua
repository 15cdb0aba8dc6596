-- Which optimizations of a full stack matter most?
--
-- In a ladder the order decides which rung gets the credit. Here every optimization is removed from the full stack, and
-- tried alone on the plain model: the table ranks them by the speed that the full stack loses without them, with their
-- memory. Each variant takes four sequences a step, so all of them train the same model on the same tokens; "whole
-- batch" computes the four at once; without it they come one after the other. On a GPU the model is Llama 3.2 1B with
-- 1.24 billion parameters; a variant that does not fit into its memory without an optimization is skipped and named.
--
--   ./optrush run experiments/ranking.lua
--   ./optrush run experiments/ranking.lua --preset compile     with torch's compiler as one of them
--   ./optrush run experiments/ranking.lua --arg checkpoint=FOLDER
--   ./optrush run experiments/ranking.lua --dry-run --as-gpu 80
local rush = require "optrush"
local own = require "own_model"

local compile = rush.preset { "eager", "compile" } == "compile"
local gpu = rush.device() == "cuda"

local model = own.model(gpu and rush.llama "llama-3.2-1b" or rush.llama("tiny", { vocab_size = 8192 }))
-- By the sequences of "one micro-batch", which computes them at once.
local whole = own.train(model, { micro_batch = 4, seq_len = gpu and 2048 or 256 })
local batch = whole.micro_batch
local of = gpu and "Llama 3.2 1B" or "a small Llama on this CPU"

local exp = rush.experiment {
  name = "ranking",
  question = "Which optimizations matter most in a full stack for "
    .. (own.given and "this checkpoint" or of) .. "?",
  model = model,
  data = rush.text(rush.corpus "libtorch"),
  train = { micro_batch = 1, accumulation = batch, seq_len = whole.seq_len, steps = 8, warmup = 3, lr = 3e-4 },
  timeout = 1800,
}

local parts = {
  rush.rung("bf16 autocast", "mixed_precision", { dtype = "bf16" }),
  rush.rung("fused AdamW", "fused_adamw"),
  rush.rung("FlashAttention", "flash_attention"),
  rush.rung("fused kernels", "fused_kernels"),
  rush.rung("fused loss", "fused_linear_cross_entropy"),
  rush.rung("SwiGLU recompute", "swiglu_recompute"),
}
if batch > 1 then
  table.insert(parts, 6, rush.rung("one micro-batch", { train = { micro_batch = batch, accumulation = 1 } }))
end
if compile then parts[#parts + 1] = rush.rung("compile", "compile") end

exp:ablation(parts)
exp:run({ within = 0.03, at_most = gpu and "20m" or "10m" }):report()
