-- torch's fully_shard (FSDP2) as an external rung: transformers' Llama from the same initial values, on the same
-- tokens.
--
--   local fsdp2 = require "peers.fsdp2"
--   fsdp2 { name = "FSDP2", ranks = 2, keep = true }
--
--   ranks   as train.world_size
--   keep    parameters stay whole from forward to backward
local rush = require "optrush"

return function(options)
  local command = {
    "{python}", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", tostring(options.ranks),
    "peers/fsdp_twin.py", "--from", "{start}", "--spec", "{spec}", "--out", "{out}",
  }
  if options.keep then command[#command + 1] = "--keep" end
  return rush.external { name = options.name, command = command, files = { "peers/fsdp_twin.py" }, effect = "rounding" }
end
