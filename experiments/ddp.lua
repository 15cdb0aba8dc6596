-- How much do more ranks bring, each with a whole copy of the model?
--
-- Gradients are summed over 2, 4 and 8 ranks, as many as this machine has GPUs or cores, or as the launcher started:
-- weak scaling (each rank keeps its micro-batch, a step has more sequences) and strong scaling (a step keeps its
-- sequences, each rank has fewer). The base is the best single-device stack. The largest number of ranks is also
-- measured without overlap (one bucket, sent after the backward) and with Python's DistributedDataParallel.
--
--   ./optrush run experiments/ddp.lua
--   ./optrush run experiments/ddp.lua --arg checkpoint=FOLDER --arg precision=bf16
--   torchrun --nproc-per-node 8 --no-python ./optrush run experiments/ddp.lua     (mpirun and srun alike)
--
-- plain/ddp.lua is a form of 15 lines, to copy.
local rush = require "optrush"
local own = require "own_model"
local precision = require "chosen_precision"
local pytorch = require "peers.pytorch"

local gpu = rush.device() == "cuda"
local limit = math.max(2, rush.ranks()) -- with one GPU the rungs of two ranks are skipped, with the reason

local model = own.model(gpu and rush.llama "llama-3.2-1b" or rush.llama "tiny")
local train = own.train(model, { micro_batch = 8, seq_len = gpu and 2048 or 256, steps = 10, warmup = 3 })
local batch = train.micro_batch -- of one rank; strong scaling divides it
local exp = rush.experiment {
  name = "ddp",
  question = "How much do more ranks bring, each with a whole copy of the model? In " .. precision.why .. ".",
  model = model,
  data = rush.text(rush.corpus "libtorch"),
  train = train,
  -- One device and one of its ranks share nothing: on a CPU a rank has its share of the cores.
  threads = gpu and 0 or 1,
}

local top = "fused loss"
local ladder = precision.rungs "bf16 autocast"
for _, rung in ipairs {
  rush.rung("fused AdamW", "fused_adamw"),
  rush.rung("FlashAttention", "flash_attention"),
  rush.rung("fused kernels", "fused_kernels"),
  rush.rung(top, "fused_linear_cross_entropy"),
} do
  ladder[#ladder + 1] = rung
end

-- The first rung of several ranks adds the plugin; the others build on it.
local function add(name, changed, over)
  local settings = { train = changed, over = over }
  ladder[#ladder + 1] = over and rush.rung(name, "ddp", {}, settings) or rush.rung(name, settings)
end

local largest = 1
for _, ranks in ipairs { 2, 4, 8 } do
  if ranks <= limit then
    add(ranks .. " ranks", { world_size = ranks }, ranks == 2 and top or nil)
    largest = ranks
  end
end
local most = largest .. " ranks"
local all = 65536 -- MiB: more than any model's gradients
ladder[#ladder + 1] = rush.rung("without overlap", "ddp", { bucket_mb = all, first_bucket_mb = all }, {
  replace = "ddp",
  over = most,
})
local same_batch = false
for _, ranks in ipairs { 2, 4, 8 } do
  if ranks <= limit and batch % ranks == 0 then
    same_batch = true
    local share = { world_size = ranks, micro_batch = batch // ranks }
    add(ranks .. " ranks, the same batch", share, ranks == 2 and top or nil)
  end
end
ladder[#ladder + 1] = pytorch {
  name = same_batch and "PyTorch DDP, the same batch" or "PyTorch DDP",
  by = "ddp",
  with = precision.with { "sdpa", "fused" },
}

exp:ladder(ladder)
exp:run({ rounds = 3 }):report()
