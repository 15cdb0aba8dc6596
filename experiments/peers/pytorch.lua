-- PyTorch itself as an external rung: transformers' Llama from the same initial values, on the same tokens.
--
--   local pytorch = require "peers.pytorch"
--   pytorch { name = "torch.compile", with = { "bf16", "sdpa", "fused" }, compile = "default", jemalloc = true }
--
--   with      any of "bf16" (autocast), "sdpa", "fused" (AdamW); none: what the naive base does
--   compile   a mode of torch.compile; nil: eager
--   jemalloc  preloads jemalloc (Debian: libjemalloc2), keeping freed memory; skipped where it is missing
local rush = require "optrush"

return function(options)
  local command = {
    "{python}", "peers/transformers_twin.py", "--start", "{start}", "--spec", "{spec}", "--out", "{out}",
    "--metrics", "{metrics}", "--with",
  }
  local reduced = false
  for _, technique in ipairs(options.with or {}) do
    command[#command + 1] = technique
    reduced = reduced or technique == "bf16"
  end
  if options.compile then
    command[#command + 1] = "--compile"
    command[#command + 1] = options.compile
  end
  return rush.external {
    name = options.name,
    command = command,
    preload = options.jemalloc and { "libjemalloc.so.2" } or nil,
    env = options.jemalloc and { MALLOC_CONF = "dirty_decay_ms:-1,muzzy_decay_ms:-1" } or nil,
    effect = reduced and "precision" or "rounding",
  }
end
