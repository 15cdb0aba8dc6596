-- What does a mixture of experts cost, and which optimizations pay on it?
--
-- The base is dense. In the mixtures each token passes as many parameters as in the base: 2 of 8 experts of half the
-- width, or 4 of 16 of a quarter. They hold four times the parameters of the MLPs, which cost memory and the update,
-- and the products are cut into one per expert. On top of the second mixture, optimizations are added one by one; the
-- last of them computes the experts as three products. The last two rungs are the same optimizations on the dense
-- model, without the one for experts. With a checkpoint, its model takes the optimizations. With several ranks the
-- optimized mixture is also trained on them: each with all experts, each with some of them, to which the tokens are
-- sent, and each with a cut of every expert; from four ranks on also with cuts of some experts. A step has the same
-- sequences, so the gate compares the losses. --arg peers=true adds the expert parallelism of transformers, from
-- version 5.22 on (docs/guides/comparing_with_pytorch.md).
--
--   ./optrush run experiments/moe.lua
--   ./optrush run experiments/moe.lua --arg ranks=2
--   ./optrush run experiments/moe.lua --arg checkpoint=FOLDER
--
-- plain/moe.lua is a form of 15 lines, to copy.
local rush = require "optrush"
local own = require "own_model"
local pytorch = require "peers.pytorch"

local gpu = rush.device() == "cuda"
local width = gpu and 8192 or 688
local model = own.model(gpu and rush.llama("llama-3.2-1b", { n_layers = 8 }) or rush.llama("tiny", { n_layers = 2 }))
local ranks = rush.arg("ranks", 1)
local peers = rush.arg("peers", false)
local train = own.train(model, {
  micro_batch = math.max(2, ranks),
  seq_len = gpu and 2048 or 256,
  steps = 6,
  warmup = 2,
  lr = 3e-4,
})

local exp = rush.experiment {
  name = "moe",
  question = "What does a mixture of experts cost at equal active parameters, and which optimizations pay on it?",
  model = model,
  data = rush.text(rush.corpus "libtorch"),
  train = train,
}

local function experts(count, per_token)
  local name = ("%d experts, %d per token"):format(count, per_token)
  local choices = { n_experts = count, experts_per_token = per_token, ffn_dim = width // per_token }
  return rush.rung(name, { model = choices, over = "base" })
end

local optimizations = {
  rush.rung("fused AdamW", "fused_adamw"),
  rush.rung("FlashAttention", "flash_attention"),
  rush.rung("fused kernels", "fused_kernels"),
}
-- On top of the optimized mixture, with the same sequences in a step, shared by `groups` groups of ranks.
local function on_ranks(groups)
  return { over = "fused kernels", train = { world_size = ranks, micro_batch = train.micro_batch // groups } }
end

local function add_ranks(ladder)
  local function add(...)
    ladder[#ladder + 1] = rush.rung(...)
  end
  add(("all experts on each of %d ranks"):format(ranks), "ddp", {}, on_ranks(ranks))
  add(("experts over %d ranks"):format(ranks), "expert_parallel", { size = ranks })
  add(("experts over %d ranks, the rest in shards"):format(ranks), "fsdp", {}, { replace = "ddp" })
  if peers then
    local name = ("transformers, experts over %d ranks"):format(ranks)
    ladder[#ladder + 1] = pytorch { name = name, by = "ep", with = { "sdpa", "fused" } }
  end
  add(("tensor parallel %d"):format(ranks), "tensor_parallel", { size = ranks }, on_ranks(1))
  if ranks % 2 == 0 and ranks > 2 then
    local stack = { { "tensor_parallel", { size = 2 } }, { "expert_parallel", { size = ranks // 2 } }, "ddp" }
    local settings = on_ranks(ranks // 2)
    settings.plugins = stack
    add(("experts over %d pairs of ranks, tensor parallel 2"):format(ranks // 2), settings)
  end
end

local ladder = optimizations
if not own.given then
  ladder = { experts(16, 4), experts(8, 2), table.unpack(optimizations) }
  ladder[#ladder + 1] = rush.rung("grouped experts", "grouped_experts")
  ladder[#ladder + 1] = rush.rung("dense, fused AdamW", "fused_adamw", {}, { over = "base" })
  ladder[#ladder + 1] = rush.rung("dense, all of them", { plugins = { "flash_attention", "fused_kernels" } })
end
if ranks > 1 then add_ranks(ladder) end
exp:ladder(ladder)

exp:run({ rounds = 3 }):report()
