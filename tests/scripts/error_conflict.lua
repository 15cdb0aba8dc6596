-- Conflicts are found before anything runs.
-- expect-error: error_conflict.lua:8: rung '8 bits': plugins 'eight_bit' and 'fused_adamw' conflict
-- expect-error:   hint: remove one: without = "fused_adamw" or replace = "fused_adamw"
local rush = require "optrush"
local exp = rush.experiment { name = "conflict", model = rush.llama "nano" }
exp:ladder {
  rush.rung("fused", "fused_adamw"),
  rush.rung("8 bits", "eight_bit"),
}
exp:run()
