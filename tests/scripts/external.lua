-- Rungs that run another program.
-- expect: run external/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172
-- expect: ladder 1 'fused' over 0: +fused_adamw (external.lua:42)
-- expect: external 2 'other' over 1: train={"steps":3} env={"A":"1","B":"2"} by {"command":["{python}","external.lua","--spec","{spec}"],"folder":"<scripts>","preload":["libjemalloc.so.2"],"requirements":"require.lua","packages":"","files":{"external.lua":"64 digits","require.lua":"64 digits"},"effect":"precision","interleave":false,"headline":true,"changes":[]} (external.lua:31)
-- expect: ladder 3 'flash' over 1: +flash_attention (external.lua:44)
-- expect: report of reports/external/local
-- expect: false	external.lua:48: rush.external: command is missing
-- expect:   hint: it must be a list of strings: program and its arguments, started in the script's folder; {python}, {spec}, {start}, {out}, {metrics}, {trace}, {worker}, {world_size}, {seed} are replaced
-- expect: false	external.lua:49: rush.external: the command is empty
-- expect:   hint: command = { "{python}", "train.py", ... }
-- expect: false	external.lua:50: rush.external: unknown placeholder '{pyhton}'
-- expect:   hint: did you mean '{python}'?
-- expect: false	external.lua:51: rush.external: no file '<scripts>/nowhere.py'
-- expect:   hint: relative paths start at the script's folder
-- expect: false	external.lua:52: rush.external: env.A must be a string, but is 1
-- expect: false	external.lua:53: rush.external: effect must be one of 'rounding', 'precision', 'model', but is "batch"
-- expect: false	external.lua:54: rush.external: unknown field 'plugins'
-- expect:   hint: one of: command, data, device, effect, env, files, headline, interleave, model, name, over, packages, preload, requirements, threads, timeout, train
-- expect: false	external.lua:55: rush.external: unknown placeholder '{outt}' in '--out={outt}'
-- expect:   hint: did you mean '{out}'?
-- expect: false	external.lua:56: rush.external: no file '<scripts>/nowhere.py'
-- expect:   hint: relative paths start at the script's folder
-- expect: false	external.lua:57: env: a run can't set RANK: it is set for each rank at the start of a run
-- expect:   hint: use train = { world_size = ... }
-- expect: false	external.lua:58: rush.external: no file '<scripts>/nowhere.txt'
-- expect:   hint: relative paths start at the script's folder
local rush = require "optrush"

local exp = rush.experiment { name = "external", model = rush.llama "nano" }
local program = rush.external {
  name = "other",
  command = { "{python}", "external.lua", "--spec", "{spec}" },
  files = { "external.lua", "require.lua" },
  env = { B = "2", A = "1" },
  preload = { "libjemalloc.so.2" },
  requirements = "require.lua",
  effect = "precision",
  train = { steps = 3 },
}
exp:ladder {
  rush.rung("fused", "fused_adamw"),
  program,
  rush.rung("flash", "flash_attention"),
}
exp:run():report()

print(pcall(rush.external, { name = "x" }))
print(pcall(rush.external, { name = "x", command = {} }))
print(pcall(rush.external, { name = "x", command = { "{pyhton}", "a.py" } }))
print(pcall(rush.external, { name = "x", command = { "a" }, files = { "nowhere.py" } }))
print(pcall(rush.external, { name = "x", command = { "a" }, env = { A = 1 } }))
print(pcall(rush.external, { name = "x", command = { "a" }, effect = "batch" }))
print(pcall(rush.external, { name = "x", command = { "a" }, plugins = { "fused_adamw" } }))
print(pcall(rush.external, { name = "x", command = { "a", "--out={outt}" } }))
print(pcall(rush.external, { name = "x", command = { "${HOME}", '{"a": 1}', "--to={out}:{world_size}" }, files = { "nowhere.py" } }))
print(pcall(exp.ladder, exp, { rush.rung("y", { env = { RANK = "1" } }) }))
print(pcall(rush.external, { name = "x", command = { "a" }, packages = "nowhere.txt" }))
