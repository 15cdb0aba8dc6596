-- Python's DistributedDataParallel under torchrun as an external rung: transformers' Llama from the same initial
-- values, on the same tokens, over the same backend.
--
--   local pytorch_ddp = require "peers.pytorch_ddp"
--   pytorch_ddp { name = "PyTorch DDP", with = { "sdpa", "fused" } }
--
--   with    as in peers/pytorch.lua; it has the ranks and the batch of the rung that it stands on
local rush = require "optrush"

return function(options)
  local command = {
    "{python}", "peers/ddp_twin.py", "--start", "{start}", "--spec", "{spec}", "--out", "{out}",
    "--metrics", "{metrics}", "--with",
  }
  local reduced = false
  for _, technique in ipairs(options.with or {}) do
    command[#command + 1] = technique
    reduced = reduced or technique == "bf16"
  end
  return rush.external {
    name = options.name,
    command = command,
    files = { "peers/transformers_twin.py" },
    effect = reduced and "precision" or "rounding",
  }
end
