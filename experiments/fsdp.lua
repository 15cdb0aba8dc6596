-- How should parameters be sharded over these devices, and does the link keep up?
--
-- Sharded data parallelism over the numbers of ranks that this machine has: only gradients sharded or also parameters,
-- how far ahead parameters are gathered, and whether they stay from forward to backward. The batch of a step is the
-- same everywhere, so more ranks have less work each. On GPUs it is Llama 3.1 8B with bf16 weights, which does not fit
-- on one of them; on a CPU it is a small Llama, and the ranks share the cores.
--
-- The report's tables of ranks and collectives show how much of a step waits for parameters. GPUs with NVLink or PCIe
-- peer access run once more through host memory, which shows the value of the link.
--
-- plain/fsdp.lua is a form of 15 lines, to copy.
local rush = require "optrush"
local own = require "own_model"

local gpu = rush.device() == "cuda"
local full = rush.preset { "short", "full" } == "full"

local sizes = {}
for _, size in ipairs { 2, 4, 8 } do
  if size <= math.max(2, rush.ranks()) then sizes[#sizes + 1] = size end
end
local model = own.model(gpu and rush.llama "llama-3.1-8b" or rush.llama "tiny")
local plugins = { "fused_adamw", "flash_attention", "fsdp" }
if gpu then
  plugins = {
    "bf16_weights",
    "flash_attention",
    "fused_linear_cross_entropy",
    { "activation_checkpointing", { policy = "full" } },
    "fsdp",
  }
end
local train = own.train(model, {
  world_size = sizes[1],
  micro_batch = math.max(4, sizes[#sizes]) // sizes[1],
  seq_len = gpu and 4096 or 128,
  steps = full and 10 or 5,
  warmup = 2,
  lr = 3e-4,
}, plugins)
local batch = math.max(sizes[1] * train.micro_batch, sizes[#sizes]) -- the same for all numbers of ranks
train.micro_batch = batch // sizes[1]

local exp = rush.experiment {
  name = "fsdp",
  question = "How should parameters be sharded over these " .. (gpu and "GPUs" or "processes")
    .. ", and does the link keep up?",
  model = model,
  data = rush.text(rush.corpus "libtorch"),
  plugins = plugins,
  train = train,
  timeout = 1800,
}

local ranks = {}
for _, size in ipairs(sizes) do
  ranks[#ranks + 1] = rush.rung(size .. " ranks", {
    train = { world_size = size, micro_batch = batch // size },
  })
end

local function sharded(name, options)
  return rush.rung(name, "fsdp", options, { replace = "fsdp" })
end
local policies = {
  sharded("stage 2", { stage = 2 }),
  sharded("stage 3, no prefetch", { prefetch = 0 }),
  sharded("stage 3", { prefetch = 1 }),
  sharded("stage 3, two ahead", { prefetch = 2, limit = 4 }),
  sharded("stage 3, kept for the backward", { reshard_after_forward = false }),
}
if gpu then
  policies[#policies + 1] = rush.rung("stage 3, no peer access", "fsdp", { prefetch = 1 }, {
    replace = "fsdp",
    env = { NCCL_P2P_DISABLE = "1" },
  })
end
if full then
  policies[#policies + 1] = sharded("stage 1", { stage = 1 })
  policies[#policies + 1] = sharded("stage 3, one gather at a time", { limit = 1 })
  policies[#policies + 1] = sharded("stage 3, sums in bf16", { reduce_type = "bf16" })
end

exp:grid({ ranks, policies }, {
  axes = { "ranks", "sharding" },
  columns = { "tokens_per_second", "step_time", "peak_memory" },
  against = "stage 3, no prefetch",
})

exp:run({ rounds = full and 5 or 3 }):report()
