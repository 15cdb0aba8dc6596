-- How should this machine's ranks be split over data, matrices, layers and sequence?
--
-- Every factorization of the ranks into dp x tp x pp x cp, with powers of two: data parallelism (dp), tensor_parallel
-- (tp), pipeline_parallel (pp) and context_parallel's ring (cp). Parameters are copied over the dp and cp ranks by
-- ddp, or sharded over them by fsdp. Splits that the model can't have (too few heads or layers) are left out.
--
-- A step has the same sequences everywhere, two for each rank, so that the gate compares the losses of all splits with
-- plain data parallelism, which is the base. A pipeline has two micro-batches for each of its ranks; others have one.
--
-- Read the table by tokens/s for the fastest split, by peak memory for the one that leaves most room, and by exposed
-- communication for why; results.csv has the rows to sort.
--
--   ./optrush run experiments/parallelism_3d.lua                          Llama 3.2 1B; on a CPU a small one
--   ./optrush run experiments/parallelism_3d.lua --preset full            Llama 3.1 8B, and stage 3, too
--   ./optrush run experiments/parallelism_3d.lua --arg ranks=4            more ranks than cores show memory, not speed
--   ./optrush run experiments/parallelism_3d.lua --set tensor_parallel.sequence=true
--   ./optrush run experiments/parallelism_3d.lua --arg checkpoint=FOLDER  a model of your own
--   torchrun --nproc-per-node 8 --no-python ./optrush run experiments/parallelism_3d.lua
--
-- plain/parallelism_3d.lua is a form of 15 lines, to copy.
local rush = require "optrush"
local own = require "own_model"

local full = rush.preset { "short", "full" } == "full"
local gpu = rush.device() == "cuda"

local most = 2
while 2 * most <= math.min(8, rush.ranks()) do
  most = 2 * most
end
local ranks = rush.arg("ranks", most)
local batch = 2 * ranks

local shape = { layers = 6, heads = 8, kv_heads = 4 }
if gpu then shape = { layers = full and 32 or 16, heads = 32, kv_heads = 8 } end
local model = rush.llama("tiny", { n_layers = shape.layers })
if gpu then model = rush.llama(full and "llama-3.1-8b" or "llama-3.2-1b") end
model = own.model(model)
if own.given then
  local sizes = own.sizes()
  shape = { layers = sizes.n_layers, heads = sizes.n_heads, kv_heads = sizes.n_kv_heads }
end

local plugins = { "fused_adamw", "flash_attention" }
if gpu then plugins = { "bf16_weights", "flash_attention", "fused_kernels", "fused_linear_cross_entropy" } end
if gpu and full then plugins[#plugins + 1] = { "activation_checkpointing", { policy = "full" } } end

-- What becomes of the copies that dp and cp ranks would have. 8B fits only where they are shards.
local sharing = {
  { name = "ddp", plugin = "ddp" },
  { name = "stage 2", plugin = { "fsdp", { stage = 2 } } },
}
if full then sharing[3] = { name = "stage 3", plugin = { "fsdp", { stage = 3 } } } end
local plain = gpu and full and sharing[3] or sharing[1]
plugins[#plugins + 1] = plain.plugin

-- Of the length alone: the micro-batch is what all splits can divide.
local length = own.train(model, { world_size = ranks, micro_batch = 1, seq_len = gpu and 4096 or 128 }, plugins).seq_len

local exp = rush.experiment {
  name = "parallelism_3d",
  question = ("How should %d ranks be split over data, matrices, layers and sequence?"):format(ranks),
  model = model,
  data = rush.text(rush.corpus "libtorch"),
  plugins = plugins,
  train = {
    world_size = ranks,
    micro_batch = batch // ranks,
    seq_len = length,
    steps = full and 10 or 6,
    warmup = 2,
  },
  timeout = 1800,
}

local function possible(tp, pp, cp)
  local heads = shape.heads % tp == 0 and (shape.kv_heads % tp == 0 or tp % shape.kv_heads == 0)
  return heads and shape.layers + 2 >= pp and length % (2 * cp) == 0
end

local splits = {}
local function add(dp, tp, pp, cp, shared)
  local names, stacked = {}, {}
  local function part(name, size, plugin, options)
    if size == 1 then return end
    names[#names + 1] = name .. size
    if plugin then stacked[#stacked + 1] = { plugin, options } end
  end
  part("dp", dp)
  part("tp", tp, "tensor_parallel", { size = tp })
  part("pp", pp, "pipeline_parallel", { size = pp })
  part("cp", cp, "context_parallel", { size = cp })
  names[#names + 1] = shared and shared.name or nil
  stacked[#stacked + 1] = shared and shared.plugin or nil
  local count = pp > 1 and 2 * pp or 1
  splits[#splits + 1] = rush.rung(table.concat(names, " "), {
    without = plain.plugin == "ddp" and "ddp" or "fsdp",
    plugins = stacked,
    train = { accumulation = count, micro_batch = batch // dp // count },
  })
end

local function powers(limit)
  local found, power = {}, 1
  while limit % power == 0 do
    found[#found + 1] = power
    power = 2 * power
  end
  return found
end

for _, cp in ipairs(powers(ranks)) do
  for _, pp in ipairs(powers(ranks // cp)) do
    for _, tp in ipairs(powers(ranks // cp // pp)) do
      local dp = ranks // cp // pp // tp
      if possible(tp, pp, cp) then
        if dp * cp == 1 then add(dp, tp, pp, cp) end
        for _, shared in ipairs(dp * cp > 1 and sharing or {}) do
          add(dp, tp, pp, cp, shared)
        end
      end
    end
  end
end

exp:grid({ splits }, {
  axes = { "split" },
  columns = { "tokens_per_second", "step_time", "exposed_time", "peak_memory" },
  against = ("dp%d %s"):format(ranks, plain.name),
})

-- Of two ranks all splits fit side by side, and are interleaved step by step.
exp:run({ rounds = 3, interleave = not gpu and ranks == 2 or nil }):report()
