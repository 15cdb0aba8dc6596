-- How long a sequence fits, and what does each way to make room for it cost?
--
-- One sequence a step, longer and longer: on one rank, with checkpointing, on a GPU with activations offloaded, and cut
-- over the ranks by context_parallel, as a ring or by heads (all_to_all), without and with checkpointing. A rank keeps
-- the activations of its part of the sequence, so they fall with the ranks; each rank has all parameters.
--
-- For each way, the ladder has the longest of these sequences that is predicted to fit into `memory` of a rank. On a
-- GPU that is nine tenths of the card's memory, on a CPU so little that a run is short. A way is only in the grid if
-- the shortest sequence does not fit, or if its memory has no prediction. The grid has memory, speed and exposed
-- communication of all ways over the lengths. A length that does not fit a GPU is a row with the memory that it needs.
--
--   ./optrush run experiments/long_context.lua
--   ./optrush run experiments/long_context.lua --arg memory=300MB --arg ranks=4
--   ./optrush run experiments/long_context.lua --arg checkpoint=FOLDER      in the memory that is free
--   ./optrush run experiments/long_context.lua --preset full       on GPUs every power of two from 8,192 on
--   torchrun --nproc-per-node 8 --no-python ./optrush run experiments/long_context.lua
--
-- plain/long_context.lua is a form of 15 lines, to copy.
local rush = require "optrush"
local own = require "own_model"

local full = rush.preset { "short", "full" } == "full"
local gpu = rush.device() == "cuda"
local card = rush.gpu()
local most = rush.arg("ranks", math.min(8, math.max(2, rush.ranks())))
local memory = rush.arg("memory", (gpu or own.given) and "" or "150MB")
local function all_of_it()
  return gpu and 0.9 * (card and card.memory_bytes or 80e9) or 0.7 * rush.cpu().free_bytes / most
end
local limit = memory ~= "" and memory or math.max(1, math.floor(all_of_it()))

local lengths = { 1024, 2048, 4096, 8192 }
if gpu then
  lengths = full and { 8192, 16384, 32768, 65536, 131072, 262144 } or { 16384, 65536, 262144 }
end

local model = own.model(gpu and rush.llama "llama-3.2-1b" or rush.llama("tiny", { n_layers = 2 }))
local plugins = gpu and { "bf16_weights", "flash_attention", "fused_kernels", "fused_linear_cross_entropy" }
  or { "fused_adamw", "flash_attention", "fused_linear_cross_entropy" }
local train = own.train(model, { micro_batch = 1, seq_len = lengths[1], steps = 3, warmup = 1 }, plugins)
if own.given then -- from the length that suits its step up to what the model was trained on
  local most_positions = own.sizes().max_positions
  for i = #lengths, 1, -1 do
    lengths[i] = lengths[i] * train.seq_len // lengths[1]
    if i > 1 and most_positions > 0 and lengths[i] > most_positions then table.remove(lengths, i) end
  end
end
local exp = rush.experiment {
  name = "long_context",
  question = "How long a sequence fits, and what does each way to make room for it cost?",
  model = model,
  data = rush.text(rush.corpus "libtorch"),
  plugins = plugins,
  train = train,
  -- One rank and one of many share nothing: on a CPU each has its share of the cores.
  threads = gpu and 0 or 1,
  timeout = 1800,
}

local checkpointed = { "activation_checkpointing", { policy = "full" } }
local function cut(ranks, kind)
  return { "context_parallel", { size = ranks, kind = kind } }
end
local ways = {
  { name = "one rank", plugins = {} },
  { name = "checkpointed", plugins = { checkpointed } },
}
if gpu then -- a CPU has no other memory
  ways[#ways + 1] = { name = "offloaded", plugins = { { "activation_checkpointing", { policy = "offload" } } } }
end
for _, ranks in ipairs { 2, 4, 8 } do
  if ranks <= most then
    local function add(name, ...)
      ways[#ways + 1] = { name = name:format(ranks), ranks = ranks, plugins = { ... } }
    end
    add("ring of %d", cut(ranks, "ring"), "ddp")
    add("heads over %d", cut(ranks, "all_to_all"), "ddp")
    add("ring of %d, checkpointed", cut(ranks, "ring"), "ddp", checkpointed)
  end
end

local function rung(way, name, length)
  return rush.rung(name, {
    plugins = way.plugins,
    train = { world_size = way.ranks, seq_len = length },
    over = length and "base" or nil,
  })
end

local axis, choices = {}, {}
for i, length in ipairs(lengths) do
  axis[i] = rush.rung(length .. " tokens", { train = { seq_len = length } })
end
for i, way in ipairs(ways) do
  choices[i] = rung(way, way.name)
end
exp:grid({ axis, choices }, {
  axes = { "sequence", "way" },
  columns = { "peak_memory", "tokens_per_second", "step_time", "exposed_time" },
  against = "one rank",
  x = "train.seq_len",
  curves = { "peak_memory", "tokens_per_second" },
})

local function fits(way, length)
  local sequence = {}
  for key, value in pairs(train) do
    sequence[key] = value
  end
  sequence.seq_len = length
  local found = rush.max_batch {
    model = model,
    train = sequence,
    plugins = plugins,
    rungs = { rung(way, way.name) },
    memory = limit,
    most = 1,
  }
  return found == 1
end

local ladder = {}
for _, way in ipairs(ways) do
  local best
  for _, length in ipairs(lengths) do
    if not fits(way, length) then break end
    best = length
  end
  if best then ladder[#ladder + 1] = rung(way, ("%s: %d tokens"):format(way.name, best), best) end
end
if #ladder > 0 then exp:ladder(ladder) end

exp:run({ rounds = 3 }):report()
