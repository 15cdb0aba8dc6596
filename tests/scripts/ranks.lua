-- Sweeps over numbers of ranks, which are settings of the training step.
-- expect: 8
-- expect: run ranks/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172
-- expect: ladder 1 '2 ranks' over 0: train={"world_size":2} (ranks.lua:19)
-- expect: ladder 2 '8 over the base' over 0: train={"world_size":8,"micro_batch":1} (ranks.lua:23)
-- expect: grid 3 'four + 2 ranks' over 0: train={"world_size":2} (ranks.lua:19)
-- expect: grid 4 'four + 8 ranks' over 0: train={"world_size":8} (ranks.lua:19)
-- expect: grid 5 'eight + 2 ranks' over 0: train={"world_size":2,"micro_batch":8} (ranks.lua:19)
-- expect: grid 6 'eight + 8 ranks' over 0: train={"world_size":8,"micro_batch":8} (ranks.lua:19)
-- expect: false	ranks.lua:28: rush.rung: train.world_size must be an integer between 1 and 65536, but is 0
local rush = require "optrush"

print(rush.ranks())

local exp = rush.experiment { name = "ranks", model = rush.llama "nano", train = { world_size = 1 } }
local sizes = {}
for _, n in ipairs { 2, rush.ranks() } do
  sizes[#sizes + 1] = rush.rung(n .. " ranks", { train = { world_size = n } })
end
exp:ladder {
  sizes[1],
  rush.rung("8 over the base", { over = "base", train = { world_size = 8, micro_batch = 1 } }),
}
exp:grid { size = sizes, batch = { rush.rung "four", rush.rung("eight", { train = { micro_batch = 8 } }) } }
exp:run()

print(pcall(rush.rung, "none", { train = { world_size = 0 } }))
