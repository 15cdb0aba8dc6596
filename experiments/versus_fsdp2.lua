-- Is our sharding as fast and as small as PyTorch's own?
--
-- The same Llama in fp32, with fused AdamW and fused attention on both sides, on two ranks: our stage 3 beside
-- fully_shard (FSDP2) on the same backend, Gloo on CPUs and NCCL on GPUs, from the same values, on the same tokens, in
-- the same rounds. Both free parameters after the forward, and then both keep them for the backward.
--
--   ./optrush run experiments/versus_fsdp2.lua
local rush = require "optrush"
local pytorch = require "peers.pytorch"

local gpu = rush.device() == "cuda"

local exp = rush.experiment {
  name = "versus_fsdp2",
  question = "Is our sharding as fast and as small as PyTorch's own?",
  model = gpu and rush.llama("llama-3.2-1b", { tie_embeddings = false })
    or rush.llama("small", { n_layers = 4, tie_embeddings = false }),
  data = rush.text(rush.corpus "libtorch"),
  plugins = { "fused_adamw", "flash_attention", "fsdp" },
  train = { world_size = 2, micro_batch = gpu and 2 or 1, seq_len = gpu and 2048 or 256, steps = 6, warmup = 2 },
}

local function fsdp2(name, keep)
  return pytorch { name = name, by = "fsdp", with = { "sdpa", "fused" }, keep = keep }
end
exp:ladder {
  fsdp2 "FSDP2",
  rush.rung("kept for the backward", "fsdp", { reshard_after_forward = false }, { replace = "fsdp" }),
  fsdp2("FSDP2, kept for the backward", true),
}

exp:run({ rounds = 3 }):report()
