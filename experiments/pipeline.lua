-- Which schedule of a pipeline waits least, with how many micro-batches, and does its bubble agree with theory?
--
-- The same step, with equally many sequences, passes a pipeline of all ranks under each schedule, cut into more and
-- more micro-batches. "What plugins count" has the measured bubble (the mean over the ranks of the time in which they
-- wait for each other) and the theoretical bubble, which assumes equal stages, backwards as long as two forwards, and
-- messages that take no time. A larger bubble comes from uneven stages, messages, and ranks that share cores with other
-- programs. "Grid" has the cost of a bubble, and the memory of a schedule: gpipe keeps all micro-batches, the others
-- keep one for each rank. Smaller micro-batches have a smaller bubble and smaller matrix products. On a GPU the host
-- does not wait, so the bubble is the exposed communication.
--
--   ./optrush run experiments/pipeline.lua
--   ./optrush run experiments/pipeline.lua --arg checkpoint=FOLDER
--   ./optrush run experiments/pipeline.lua --arg ranks=4      of more ranks than cores the bubble says little
--
-- plain/pipeline.lua is a form of 15 lines, to copy.
local rush = require "optrush"
local own = require "own_model"

local gpu = rush.device() == "cuda"
local ranks = rush.arg("ranks", math.min(8, math.max(2, rush.ranks())))
local batch = 8 * ranks
-- The interleaved schedule has two chunks a rank: two blocks each.
local layers = math.max(gpu and 16 or 8, 4 * ranks)

local model = own.model(rush.llama(gpu and "llama-3.2-1b" or "tiny", { n_layers = layers }))
if own.given then layers = own.sizes().n_layers end
local plugins = gpu and { "bf16_weights", "flash_attention", "fused_linear_cross_entropy", "pipeline_parallel" }
  or { "fused_adamw", "flash_attention", "pipeline_parallel" }
-- Of the length alone: the micro-batch is what all cuts can divide.
local length = own.train(model, {
  world_size = ranks,
  micro_batch = 1,
  accumulation = batch,
  seq_len = gpu and 2048 or 128,
}, plugins).seq_len

local exp = rush.experiment {
  name = "pipeline",
  question = "Which schedule of a pipeline waits least, with how many micro-batches, and does theory agree?",
  model = model,
  data = rush.text(rush.corpus "libtorch"),
  plugins = plugins,
  train = {
    world_size = ranks,
    micro_batch = batch // ranks,
    accumulation = ranks,
    seq_len = length,
    steps = 6,
    warmup = 2,
  },
}

local schedules = {}
local names = { "gpipe", "1f1b", "zero_bubble" }
if layers >= 2 * ranks then table.insert(names, 3, "interleaved") end
for _, schedule in ipairs(names) do
  schedules[#schedules + 1] = rush.rung(schedule, "pipeline_parallel", { size = ranks, schedule = schedule }, {
    replace = "pipeline_parallel",
  })
end

local cuts = {}
for _, factor in ipairs { 1, 2, 4, 8 } do
  local count = factor * ranks
  cuts[#cuts + 1] = rush.rung(count .. " micro-batches", {
    train = { accumulation = count, micro_batch = batch // count },
  })
end

exp:grid({ schedules, cuts }, {
  axes = { "schedule", "micro-batches" },
  columns = { "tokens_per_second", "step_time", "exposed_time", "peak_memory" },
  against = "gpipe",
  x = "train.accumulation",
  curves = { "step_time", "peak_memory" },
})

-- Interleaved step by step, so that other load on these cores slows all schedules alike.
exp:run({ rounds = 3, interleave = not gpu or nil }):report()
