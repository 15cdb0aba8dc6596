-- What does it cost to keep less of a SwiGLU MLP, and what does it save?
--
-- A stack of MLPs alone, at two levels: 0 keeps x, gate, up and hidden for the backward; 1 keeps x and recomputes the
-- others (docs/plugins/shipped/swiglu_recompute.md derives the bytes). On a GPU the sizes are from a published table,
-- with one that fills a card, in bf16. On a CPU they are smaller, with the same depth, in fp32. A row is skipped if its
-- step does not fit into the machine, with the bytes that it needs.
--
-- form=published repeats the published table row by row. It is in fp32, and level 1 recomputes a whole layer at once
-- (chunk = all tokens). Gradients of an earlier backward are in memory while one is measured, so each step here has two
-- micro-batches. The peak is in the second one.
--
--   ./optrush run experiments/swiglu_checkpoint.lua
--   ./optrush run experiments/swiglu_checkpoint.lua --arg checkpoint=FOLDER     MLPs of this Hugging Face folder
--   ./optrush run experiments/swiglu_checkpoint.lua --arg form=published
--   ./optrush run experiments/swiglu_checkpoint.lua --arg form=published --dry-run --as-gpu a100-80
--
-- plain/swiglu_checkpoint.lua is a form of 15 lines, to copy.
local rush = require "optrush"
local own = require "own_model"

local published = rush.arg("form", "own", { "own", "published" }) == "published"

-- Batch, sequence, hidden and inner width, layers.
local on_gpu = rush.device() == "cuda"
local card = rush.gpu()
-- saves: GiB by which level 1 lowers the peak of level 0, as published.
local of_table = {
  { b = 16, s = 128, h = 512, i = 2048, layers = 2, saves = 0.047 },
  { b = 32, s = 128, h = 512, i = 2048, layers = 2, saves = 0.093 },
  { b = 8, s = 512, h = 1024, i = 4096, layers = 3, saves = 0.375 },
  { b = 16, s = 512, h = 1024, i = 4096, layers = 3, saves = 0.750 },
  { b = 4, s = 1024, h = 4096, i = 16384, layers = 5, saves = 3.000 },
}
local sizes = published and of_table
  or on_gpu
    and {
      of_table[1],
      of_table[2],
      of_table[3],
      of_table[4],
      of_table[5],
      { b = card and card.memory_bytes >= 100e9 and 32 or 16, s = 4096, h = 4096, i = 16384, layers = 5 },
    }
  or {
    { b = 16, s = 128, h = 256, i = 1024, layers = 2 },
    { b = 32, s = 128, h = 256, i = 1024, layers = 2 },
    { b = 8, s = 256, h = 384, i = 1536, layers = 3 },
    { b = 16, s = 256, h = 384, i = 1536, layers = 3 },
    { b = 4, s = 1024, h = 512, i = 2048, layers = 5 },
  }

if own.given then -- as wide as its MLPs, and no deeper
  local shape = own.sizes()
  for _, size in ipairs(sizes) do
    size.h, size.i, size.layers = shape.dim, shape.ffn_dim, math.min(size.layers, shape.n_layers)
  end
end

local function model(size)
  return rush.operator("mlp", { dim = size.h, ffn_dim = size.i, ["repeat"] = size.layers })
end

local function train(size)
  return {
    micro_batch = size.b,
    seq_len = size.s,
    warmup = 2,
    steps = 15,
    accumulation = published and 2 or 1,
    dtype = on_gpu and not published and "bf16" or "fp32",
  }
end

local function name_of(size)
  return ("b%d s%d h%d i%d x%d"):format(size.b, size.s, size.h, size.i, size.layers)
end

local exp = rush.experiment {
  name = "swiglu_checkpoint",
  question = "What does recomputing a SwiGLU MLP cost, and what does it save?",
  model = model(sizes[1]),
  train = train(sizes[1]),
}

if published then
  local ladder = {}
  for _, size in ipairs(sizes) do
    ladder[#ladder + 1] = rush.rung(name_of(size) .. ", level 0", {
      over = "base",
      model = model(size),
      train = train(size),
      plugins = { { "swiglu_recompute", { level = 0 } } },
    })
    local recomputed = ("%s, level 1 (published: %.3f GiB less)"):format(name_of(size), size.saves)
    ladder[#ladder + 1] = rush.rung(recomputed, "swiglu_recompute", { level = 1, chunk = size.b * size.s }, {
      replace = "swiglu_recompute",
    })
  end
  exp:ladder(ladder)
else
  local rungs = {}
  for _, size in ipairs(sizes) do
    rungs[#rungs + 1] = rush.rung(name_of(size), { model = model(size), train = train(size) })
  end
  local levels = {}
  for level = 0, 1 do
    levels[#levels + 1] = rush.rung("level " .. level, "swiglu_recompute", { level = level })
  end
  exp:grid({ rungs, levels }, {
    axes = { "size", "level" },
    columns = { "forward_time", "backward_time", "peak_memory", "activations", "tokens_per_second" },
    against = "level 0",
  })
end

exp:run({ rounds = 3 }):report()
