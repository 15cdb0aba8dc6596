-- Dynamic frequencies matter for sequences that are longer than the model's positions.
-- expect-error: error_checkpoint_dynamic.lua:8: train.seq_len is 9, but in the checkpoint '<scripts>/checkpoint_dynamic' rotary frequencies change beyond 8 positions ('rope_type' is "dynamic"); longer sequences are not supported
-- expect-error:   hint: set train.seq_len = 8 or less
local rush = require "optrush"

local exp = rush.experiment { name = "dynamic", model = rush.checkpoint "checkpoint_dynamic", train = { seq_len = 8 } }
exp:ladder {
  rush.rung("longer", { train = { seq_len = 9 } }),
}
exp:run()
