-- Two ranks on one GPU: each kind of group, and the links of a pipeline.
local rush = require "optrush"

local exp = rush.experiment {
  name = "shared",
  device = "cuda",
  -- Copies of a tied embedding could not agree, because they have no values here.
  model = rush.llama("tiny", { n_layers = 2, tie_embeddings = false }),
  data = rush.random(),
  plugins = { "bf16_weights", "flash_attention" },
  train = { micro_batch = 2, seq_len = 128, steps = 2, warmup = 2 },
}

local function way(plugin, micro_batch, accumulation)
  local train = { world_size = 2, micro_batch = micro_batch, accumulation = accumulation }
  return rush.rung(plugin, { plugins = { plugin }, train = train })
end

exp:grid { { way("ddp", 1, 1), way("fsdp", 1, 1), way("tensor_parallel", 2, 1), way("pipeline_parallel", 1, 2) } }
exp:run { rounds = 1 }
