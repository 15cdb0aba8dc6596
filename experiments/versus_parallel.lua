-- Are tensor, pipeline and context parallelism as fast and as small as PyTorch's own?
--
-- The same Llama in the same precision, with fused AdamW and fused attention on both sides, on two ranks, from the same
-- values, on the same tokens, in the same rounds, over the same backend: Gloo on CPUs, NCCL on GPUs. Our
-- tensor_parallel is compared with torch's parallelize_module with loss_parallel, and our pipeline_parallel with its
-- ScheduleGPipe and Schedule1F1B, cut at the same block. The base is the step of one rank. "vs previous" in a row of
-- torch is its speed divided by ours.
--
-- Torch's context_parallel is compared with our ring on GPUs only, because it supports only attention kernels of CUDA.
-- On a CPU torch 2.11 reports "NotImplementedError: Operator aten._scaled_dot_product_flash_attention_for_cpu.default
-- does not have a sharding strategy registered."
--
--   ./optrush run experiments/versus_parallel.lua
--   ./optrush run experiments/versus_parallel.lua --arg checkpoint=FOLDER --arg precision=bf16
local rush = require "optrush"
local own = require "own_model"
local precision = require "chosen_precision"
local pytorch = require "peers.pytorch"

local gpu = rush.device() == "cuda"
local layers = gpu and 16 or 4
local model = own.model(rush.llama(gpu and "llama-3.2-1b" or "small", { n_layers = layers, tie_embeddings = false }))
if own.given then
  layers = own.sizes().n_layers
  if own.sizes().tie_embeddings then
    error("PyTorch's tensor and pipeline parallelism do not support a model with tied embeddings here; "
      .. "experiments/parallelism_3d.lua supports this checkpoint", 0)
  end
end
local halves = ("%d,%d"):format(layers // 2, layers - layers // 2)
local plugins = precision.plugins { "fused_adamw", "flash_attention" }
local train = {
  micro_batch = 1,
  accumulation = 8, -- the micro-batches of a pipeline
  seq_len = gpu and 2048 or 256,
  steps = 6,
  warmup = 2,
}

local exp = rush.experiment {
  name = "versus_parallel",
  question = "Are tensor, pipeline and context parallelism as fast and as small as PyTorch's own? In "
    .. precision.why .. ".",
  model = model,
  data = rush.text(rush.corpus "libtorch"),
  plugins = plugins,
  train = own.train(model, train, plugins),
  -- One rank and one of two share nothing: on a CPU each has its share of the cores.
  threads = gpu and 0 or 1,
}

local ladder = {}
local function add(ours, stacked, theirs)
  ladder[#ladder + 1] = rush.rung(ours, { plugins = stacked, train = { world_size = 2 }, over = "base" })
  if not theirs then return end
  theirs.with = precision.with { "sdpa", "fused" }
  ladder[#ladder + 1] = pytorch(theirs)
end

local function pipeline(schedule)
  return { { "pipeline_parallel", { size = 2, schedule = schedule, blocks = halves } } }
end
add("tensor parallel", { { "tensor_parallel", { size = 2 } } }, { name = "PyTorch, tensor parallel", by = "tp" })
add("pipeline, GPipe", pipeline "gpipe", { name = "PyTorch, ScheduleGPipe", by = "pp", schedule = "GPipe" })
add("pipeline, 1F1B", pipeline "1f1b", { name = "PyTorch, Schedule1F1B", by = "pp", schedule = "1F1B" })
add("ring", { { "context_parallel", { size = 2, kind = "ring" } }, "ddp" }, gpu and {
  name = "PyTorch, context parallel",
  by = "cp",
} or nil)

exp:ladder(ladder)
-- Interleaved step by step, so that other load on the same cores slows both sides alike.
exp:run({ rounds = 3, interleave = not gpu or nil }):report()
