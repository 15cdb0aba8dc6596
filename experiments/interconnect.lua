-- What does the link between the ranks carry, and what does a message cost?
--
-- Each collective alone, over sizes, among all ranks that run here (or that the launcher started), its result checked
-- by value. As nccl-tests defines them: the algorithm bandwidth is the size over the time of a call; the bus bandwidth
-- is that times 2 (N - 1) / N for an all-reduce, (N - 1) / N for all-gather, reduce-scatter and all-to-all, 1 for a
-- ring of sends, so that it is the bandwidth of the link for any collective and number of ranks. The time of the
-- smallest message is the latency. The bus bandwidth of the largest message distinguishes PCIe, NVLink and Ethernet.
--
--   ./optrush run experiments/interconnect.lua
--   ./optrush run experiments/interconnect.lua --preset full      every size from 4 KiB on, and all-to-all
--   srun --nodes 2 --ntasks-per-node 8 ./optrush run experiments/interconnect.lua
local rush = require "optrush"
local own = require "own_model"

own.none "plan-mesh says what its gradients and activations would send"

local full = rush.preset { "short", "full" } == "full"
local gpu = rush.device() == "cuda"
local ranks = math.max(2, rush.ranks()) -- with one GPU the runs are skipped, with the reason

local exp = rush.experiment {
  name = "interconnect",
  question = "What does the link between the ranks carry, and what does a message cost?",
  model = rush.collective "all_reduce",
  train = { world_size = ranks, micro_batch = 1, seq_len = 1, steps = 8, warmup = 2 },
}

local KIB, MIB = 1024, 1024 * 1024
local sizes = {}
local bytes, factor = 4 * KIB, full and 4 or 16
while bytes <= (gpu and 256 or 64) * MIB do
  local name = bytes < MIB and bytes // KIB .. " KiB" or bytes // MIB .. " MiB"
  -- A step moves some MiB: a small message is timed over many calls.
  local calls = math.max(2, math.min(50, (gpu and 512 or 16) * MIB // bytes))
  sizes[#sizes + 1] = rush.rung(name, { model = { bytes = bytes, ["repeat"] = calls } })
  bytes = factor * bytes
end

local ops = {}
for _, op in ipairs { "all_reduce", "all_gather", "reduce_scatter", "send_recv", full and "all_to_all" or nil } do
  ops[#ops + 1] = rush.rung(op, { model = rush.collective(op) })
end

exp:grid({ ops, sizes }, {
  axes = { "collective", "size" },
  columns = { "collective_time", "algorithm_bandwidth", "bus_bandwidth" },
  x = "model.bytes",
  curves = { "bus_bandwidth", "collective_time" },
})

exp:run({ rounds = 3 }):report()
