-- Missing requirements are found before anything runs.
-- expect-error: error_requirement.lua:6: rung 'scaler': plugin 'grad_scaler' requires 'mixed_precision', which is not stacked
-- expect-error:   hint: stack 'mixed_precision' as well; stacked: fused_adamw, grad_scaler
local rush = require "optrush"
local exp = rush.experiment { name = "requirement", model = rush.llama "nano", plugins = { "fused_adamw" } }
exp:ladder { rush.rung("scaler", "grad_scaler") }
exp:run()
