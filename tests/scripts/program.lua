-- A program as the base, and rungs that change its command.
-- expect: run program/local, rounds 5
-- expect: base 0 'base': by {"command":["{python}","external.lua"],"folder":"<scripts>","preload":[],"requirements":"require.lua","packages":"","files":{"external.lua":"64 digits"},"effect":"rounding","interleave":true,"headline":true,"changes":[]} /model_kind="program" /train/micro_batch=2 /train/seq_len=8 /env/A="1" /env/B="2"
-- expect: ladder 1 'compile' over 0: by {"command":["{python}","external.lua"],"folder":"<scripts>","preload":[],"requirements":"require.lua","packages":"","files":{"external.lua":"64 digits"},"effect":"rounding","interleave":true,"headline":true,"changes":[{"rung":"compile","command":[],"args":["--compile"],"files":{},"effect":"rounding"}]} (program.lua:41)
-- expect: ladder 2 'config' over 1: env={"A":"3"} by {"command":["{python}","external.lua"],"folder":"<scripts>","preload":[],"requirements":"require.lua","packages":"","files":{"external.lua":"64 digits"},"effect":"rounding","interleave":true,"headline":true,"changes":[{"rung":"compile","command":[],"args":["--compile"],"files":{},"effect":"rounding"},{"rung":"config","command":[],"args":["--config","grid.lua"],"files":{"grid.lua":"64 digits"},"effect":"precision"}]} (program.lua:42)
-- expect: external 3 'other' over 1: by {"command":["other"],"folder":"<scripts>","preload":[],"requirements":"","packages":"","files":{},"effect":"rounding","interleave":false,"headline":true,"changes":[]} (program.lua:43)
-- expect: ladder 4 'another command' over 2: by {"command":["{python}","external.lua"],"folder":"<scripts>","preload":[],"requirements":"require.lua","packages":"","files":{"external.lua":"64 digits"},"effect":"rounding","interleave":true,"headline":true,"changes":[{"rung":"config","command":[],"args":["--config","grid.lua"],"files":{"grid.lua":"64 digits"},"effect":"precision"},{"rung":"another command","command":["{python}","search.lua"],"args":[],"files":{"search.lua":"64 digits"},"effect":"rounding"}]} (program.lua:44)
-- expect: report of reports/program/local
-- expect: false	program.lua:50: rush.experiment: program.command is missing
-- expect:   hint: it must be a list of strings: program and its arguments, started in the script's folder; {python}, {spec}, {start}, {out}, {metrics}, {trace}, {worker}, {world_size}, {seed} are replaced
-- expect: false	program.lua:50: rush.experiment: program: the command is empty
-- expect:   hint: command = { "{python}", "train.py", ... }
-- expect: false	program.lua:50: rush.experiment: program: unknown placeholder '{pyhton}'
-- expect:   hint: did you mean '{python}'?
-- expect: false	program.lua:50: rush.experiment: model cannot be combined with program
-- expect:   hint: leave it out: the program has its own model, data and files
-- expect: false	program.lua:50: rush.experiment: validate cannot be combined with program
-- expect:   hint: leave it out: the program has its own model, data and files
-- expect: false	program.lua:50: rush.experiment: unknown field 'zebra' of program
-- expect:   hint: one of: command, effect, env, files, headline, interleave, packages, preload, requirements
-- expect: false	program.lua:50: '{start}' in the command of 'base' needs a model, from whose initial values the program starts
-- expect:   hint: leave it out, or give the experiment a model and run the program as a rush.external rung
-- expect: false	program.lua:50: rush.rung: unknown placeholder '{outt}'
-- expect:   hint: did you mean '{out}'?
-- expect: false	program.lua:50: rush.rung: effect must be one of 'rounding', 'precision', 'model', but is "batch"
-- expect: false	program.lua:50: rush.rung: no file '<scripts>/nowhere.yaml'
-- expect:   hint: relative paths start at the script's folder
-- expect: false	program.lua:62: rung 'y' stacks the plugin 'fused_adamw' on a program, which plugins cannot change
-- expect:   hint: change the program with args, env or command; or give the rung a model, which it then trains
-- expect: false	program.lua:63: rung 'y': without names 'compile', which is not stacked
-- expect:   hint: no plugins are stacked at this rung
local rush = require "optrush"

local exp = rush.experiment {
  name = "program",
  program = { command = { "{python}", "external.lua" }, env = { A = "1" }, requirements = "require.lua" },
  train = { micro_batch = 2, seq_len = 8 },
  env = { B = "2" },
}
exp:ladder {
  rush.rung("compile", { args = "--compile" }),
  rush.rung("config", { args = { "--config", "grid.lua" }, env = { A = "3" }, effect = "precision" }),
  rush.external { name = "other", command = { "other" }, over = "compile" },
  rush.rung("another command", { command = { "{python}", "search.lua" }, without = "compile" }),
}
exp:run():report()

local command = { "{python}", "train.py" }
local function refused(...)
  print(pcall(...))
end
refused(rush.experiment, { name = "x", program = {} })
refused(rush.experiment, { name = "x", program = { command = {} } })
refused(rush.experiment, { name = "x", program = { command = { "{pyhton}", "a.py" } } })
refused(rush.experiment, { name = "x", program = { command = command }, model = rush.llama "nano" })
refused(rush.experiment, { name = "x", program = { command = command }, validate = { every = 2 } })
refused(rush.experiment, { name = "x", program = { command = command, zebra = 1 } })
refused(rush.experiment, { name = "x", program = { command = { "train.py", "{start}" } } })
refused(rush.rung, "x", { args = "{outt}" })
refused(rush.rung, "x", { args = "-x", effect = "batch" })
refused(rush.rung, "x", { args = "-x", files = { "nowhere.yaml" } })
refused(exp.ladder, exp, { rush.rung("y", "fused_adamw") })
refused(exp.ladder, exp, { rush.rung("y", { without = "compile" }) })
