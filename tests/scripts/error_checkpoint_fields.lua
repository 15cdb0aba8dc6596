-- The checkpoint gives this field, so a value here would be ignored.
-- expect-error: error_checkpoint_fields.lua:7: model.n_layers would be ignored: the checkpoint '<scripts>/checkpoint' sets it
-- expect-error:   hint: leave out model.n_layers, or leave out model.checkpoint
local rush = require "optrush"

local exp = rush.experiment { name = "checkpoint", model = rush.checkpoint "checkpoint" }
exp:ladder { rush.rung("deeper", { model = { n_layers = 32 } }) }
exp:run()
