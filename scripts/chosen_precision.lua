-- In which precision an experiment multiplies: --arg precision=auto, fp32 or bf16.
--
--   local precision = require "chosen_precision"
--   precision.name                                        "bf16" or "fp32"
--   precision.why                                         one clause for the question of the experiment
--   precision.rungs("bf16 autocast")                      a list: that rung, or none
--   precision.with { "sdpa" }                             what peers.pytorch takes in `with`
--
-- auto is bf16 on a GPU, and on a CPU whose matmuls in bf16 are at least 1.5 times as fast as those in fp32. Such CPUs
-- have AVX512-BF16 or AMX, but a virtual machine may hide the unit that makes them fast: it is measured for a second.
local rush = require "optrush"

local LEAST_SPEEDUP = 1.5
local asked = rush.arg("precision", "auto", { "auto", "fp32", "bf16" })

local function chosen()
  if asked ~= "auto" then return asked, asked end
  if rush.device() == "cuda" then return "bf16", "bf16" end
  local cpu = rush.cpu() -- without a name where nothing is measured, as for the list of `optrush experiments`
  if cpu.name == "" then return "fp32", "bf16 where this machine is faster in it, otherwise in fp32" end
  local speedup = cpu.bf16_speedup
  if speedup == 0 then return "fp32", "fp32, because this CPU has no bf16 instructions" end
  local measured = ("this CPU's bf16 matmuls are %.1f times as fast as fp32"):format(speedup)
  if speedup < LEAST_SPEEDUP then return "fp32", "fp32, because " .. measured end
  return "bf16", "bf16, because " .. measured
end

local name, why = chosen()
local precision = { name = name, why = why }

--- The rung that multiplies in bf16, for a ladder.
function precision.rungs(title)
  if name ~= "bf16" then return {} end
  return { rush.rung(title, "mixed_precision", { dtype = "bf16" }) }
end

--- The same as plugins of a base.
function precision.plugins(others)
  local plugins = {}
  for _, plugin in ipairs(others or {}) do
    plugins[#plugins + 1] = plugin
  end
  if name == "bf16" then plugins[#plugins + 1] = { "mixed_precision", { dtype = "bf16" } } end
  return plugins
end

--- Techniques of a peer, with its autocast where that is the precision.
function precision.with(techniques)
  local all = {}
  for _, technique in ipairs(techniques) do
    all[#all + 1] = technique
  end
  if name == "bf16" then all[#all + 1] = "bf16" end
  return all
end

return precision
