-- A script lists all of its conflicts, each at the first rung that has it.
-- expect-error: the stacks of plugins have 2 errors:
-- expect-error: rung 'base': plugin 'grad_scaler' requires 'mixed_precision', which is not stacked
-- expect-error:   hint: stack 'mixed_precision' as well; stacked: grad_scaler
-- expect-error: error_conflicts.lua:11: rung '8 bits': plugins 'eight_bit' and 'fused_adamw' conflict
-- expect-error:   hint: remove one: without = "fused_adamw" or replace = "fused_adamw"
local rush = require "optrush"
local exp = rush.experiment { name = "conflicts", model = rush.llama "nano", plugins = { "grad_scaler" } }
exp:ladder {
  rush.rung("fused", "fused_adamw"),
  rush.rung("8 bits", "eight_bit"),
  rush.rung("LoRA", "lora"),
}
exp:run()
