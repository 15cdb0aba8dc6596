-- Stacking a plugin again needs `replace`.
-- expect-error: error_stacked_twice.lua:8: rung 'rank 16' stacks 'lora', which rung 'rank 8' (error_stacked_twice.lua:7) already stacks
-- expect-error:   hint: to change its options, set replace = "lora"
local rush = require "optrush"
local exp = rush.experiment { name = "twice", model = rush.llama "nano" }
exp:ladder {
  rush.rung("rank 8", "lora"),
  rush.rung("rank 16", "lora", { rank = 16 }),
}
exp:run()
