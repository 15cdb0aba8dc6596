-- Every way to share a training among GPUs, alone and mixed, at the smallest size that each allows. Nothing is computed here.
local rush = require "optrush"

local exp = rush.experiment {
  name = "ranks",
  device = "cuda",
  model = rush.llama("tiny", { n_layers = 4 }),
  data = rush.random(),
  plugins = { "bf16_weights", "flash_attention" },
  train = { micro_batch = 4, seq_len = 128, steps = 2, warmup = 2 },
}

local stacks = {}
local function stack(name, ranks, plugins, train)
  train = train or {}
  train.world_size, train.micro_batch = ranks, train.micro_batch or 2
  stacks[#stacks + 1] = rush.rung(name, { plugins = plugins, train = train })
end

stack("ddp", 2, { "ddp" })
exp:grid { stacks }
exp:run { rounds = 1 }
