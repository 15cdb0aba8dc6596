-- Every kind of distributed training, alone and mixed, at the smallest size that it allows. Each step has four
-- sequences. The stand-in computes nothing.
local rush = require "optrush"

local exp = rush.experiment {
  name = "ranks",
  device = "cuda",
  -- Copies of a tied embedding could not agree, because they have no values here.
  model = rush.llama("tiny", { n_layers = 6, tie_embeddings = false }),
  data = rush.random(),
  plugins = { "bf16_weights", "flash_attention" },
  train = { micro_batch = 4, seq_len = 128, steps = 2, warmup = 2 },
}

local ways = {}
--- `copies`: ranks with different sequences.
local function way(name, ranks, copies, plugins, settings)
  settings = settings or {}
  local accumulation = settings.accumulation or 1
  ways[#ways + 1] = rush.rung(name, {
    plugins = plugins,
    replace = settings.replace,
    data = settings.data,
    model = settings.model,
    train = { world_size = ranks, micro_batch = 4 // copies // accumulation, accumulation = accumulation },
  })
end

way("ddp", 2, 2, { "ddp" })
way("fsdp 1", 2, 2, { { "fsdp", { stage = 1 } } })
way("fsdp 2", 2, 2, { { "fsdp", { stage = 2 } } })
way("fsdp 3", 2, 2, { { "fsdp", { prefetch = 2 } } })
way("fsdp, offload", 2, 2, { { "fsdp", { offload = true } } })
way("hybrid", 4, 4, { { "fsdp", { shard_ranks = 2 } } })
way("tensor", 2, 1, { { "tensor_parallel", { overlap = 2 } } })
way("tensor, sequence", 2, 1, { { "tensor_parallel", { sequence = true } } })
way("ring", 2, 1, { "context_parallel", "ddp" })
way("all-to-all", 2, 1, { { "context_parallel", { kind = "all_to_all" } }, "fsdp" })
for _, schedule in ipairs { "gpipe", "1f1b", "interleaved", "zero_bubble" } do
  local stages = schedule == "interleaved" and 2 or 3 -- of four micro-batches
  way(schedule, stages, 1, { { "pipeline_parallel", { size = stages, schedule = schedule } } }, { accumulation = 4 })
end
way("pipeline, tensor, ddp", 8, 2, { "pipeline_parallel", "tensor_parallel", "ddp" }, { accumulation = 2 })
way("ring, fsdp", 4, 2, { "context_parallel", "fsdp" })
-- No router computes here, so the plugin sets the number of rows of each expert.
local experts = { n_experts = 8, expert_ffn_dim = 344, shared_expert_ffn_dim = 344 }
local function of_experts(name, ranks, copies, plugins)
  way(name, ranks, copies, plugins, { model = experts })
end
of_experts("experts", 2, 2, { "known_routes", "expert_parallel", "ddp" })
of_experts("experts over 4", 4, 4, { "known_routes", { "expert_parallel", { size = 4 } }, "fsdp" })
of_experts("experts, tensor", 4, 2, { "known_routes", "expert_parallel", "tensor_parallel", "ddp" })
way("muon, fsdp", 2, 2, { "muon", "fsdp" }, { replace = "bf16_weights" })
way("qlora, fsdp", 2, 2, { "lora", "nf4", "fsdp" })
way("dpo, fsdp", 2, 2, { "lora", "dpo", "fsdp" }, { data = rush.preferences(rush.corpus "libtorch") })

exp:grid { ways }
exp:run { rounds = 1 }
