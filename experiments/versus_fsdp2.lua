-- Is the sharding as fast and as small as PyTorch's own?
--
-- The same Llama in the same precision, with fused AdamW and fused attention on both sides, on two ranks: our stage 3
-- beside fully_shard (FSDP2) on the same backend, Gloo on CPUs and NCCL on GPUs, from the same values, on the same
-- tokens, in the same rounds. Both free parameters after the forward, and then both keep them for the backward.
--
--   ./optrush run experiments/versus_fsdp2.lua
--   ./optrush run experiments/versus_fsdp2.lua --arg checkpoint=FOLDER --arg precision=bf16
local rush = require "optrush"
local own = require "own_model"
local precision = require "chosen_precision"
local pytorch = require "peers.pytorch"

local gpu = rush.device() == "cuda"

local model = own.model(rush.llama(gpu and "llama-3.2-1b" or "small", {
  n_layers = gpu and 16 or 4,
  tie_embeddings = false,
}))
if own.given and own.sizes().tie_embeddings then
  error("fully_shard in this comparison does not support a model with tied embeddings; "
    .. "experiments/fsdp.lua and versus_pytorch.lua support this checkpoint", 0)
end
local plugins = precision.plugins { "fused_adamw", "flash_attention", "fsdp" }
local train = { world_size = 2, micro_batch = gpu and 2 or 1, seq_len = gpu and 2048 or 256, steps = 6, warmup = 2 }

local exp = rush.experiment {
  name = "versus_fsdp2",
  question = "Is the sharding as fast and as small as PyTorch's own? In " .. precision.why .. ".",
  model = model,
  data = rush.text(rush.corpus "libtorch"),
  plugins = plugins,
  train = own.train(model, train, plugins),
}

local function fsdp2(name, keep)
  return pytorch { name = name, by = "fsdp", with = precision.with { "sdpa", "fused" }, keep = keep }
end
exp:ladder {
  fsdp2 "FSDP2",
  rush.rung("kept for the backward", "fsdp", { reshard_after_forward = false }, { replace = "fsdp" }),
  fsdp2("FSDP2, kept for the backward", true),
}

-- Rows of other programs take part in interleaved steps from the second round on.
exp:run({ rounds = 4 }):report()
