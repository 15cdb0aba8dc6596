-- Errors of a search, and its first stage where nothing is measured.
-- expect: false	search.lua:32: exp:search has no parts
-- expect:   hint: put rush.rung(...) between the braces
-- expect: false	search.lua:33: exp:search: part 1 has no rung
-- expect:   hint: put rush.rung(...) into the part
-- expect: false	search.lua:31: exp:search: 'other' is an external program, on which plugins cannot be stacked
-- expect:   hint: measure it in a ladder with the stack that the search found
-- expect: false	search.lua:35: exp:search: 'above' is placed over 'flash'
-- expect:   hint: leave out `over`: a search determines the order
-- expect: false	search.lua:30: two rungs are named 'flash': also search.lua:30
-- expect:   hint: give each rung a unique name: reports and --only use it
-- expect: false	search.lua:37: exp:search: memory is '20 parsecs'
-- expect:   hint: give bytes, or "20GB", "512MB", "16GiB"
-- expect: false	search.lua:38: exp:search: at_most: "soon" is not a duration above 0 seconds
-- expect:   hint: give seconds, or for example "90s", "5m", "1.5h"
-- expect: run search/found, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172
-- expect: ladder 1 'flash' over 0: +flash_attention (search.lua:30)
-- expect: ladder 2 'batch 8' over 0: train={"micro_batch":8} (search.lua:40)
-- expect: ladder 3 'batch 16' over 0: train={"micro_batch":16} (search.lua:41)
-- expect: report of reports/search/found
-- expect: false	search.lua:45: exp:search: the experiment has a ladder, an ablation or a grid already
-- expect:   hint: use a separate experiment for the search
-- expect: run taken/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172
-- expect: ladder 1 'flash' over 0: +flash_attention (search.lua:30)
local rush = require "optrush"

local exp = rush.experiment { name = "search", model = rush.llama "nano" }
local flash = rush.rung("flash", "flash_attention")
local other = rush.external { name = "other", command = { "true" } }
print(pcall(exp.search, exp, {}))
print(pcall(exp.search, exp, { {} }))
print(pcall(exp.search, exp, { flash, other }))
print(pcall(exp.search, exp, { rush.rung("above", "lora", {}, { over = "flash" }) }))
print(pcall(exp.search, exp, { flash, flash }))
print(pcall(exp.search, exp, { flash }, { memory = "20 parsecs" }))
print(pcall(exp.search, exp, { flash }, { at_most = "soon" }))
exp:search({ flash, {
  rush.rung("batch 8", { train = { micro_batch = 8 } }),
  rush.rung("batch 16", { train = { micro_batch = 16 } }),
} }, { memory = "20GB", at_most = "20m", label = "found" }):report()
local taken = rush.experiment { name = "taken", model = rush.llama "nano" }
taken:ladder { flash }
print(pcall(taken.search, taken, { flash }))
taken:run()
