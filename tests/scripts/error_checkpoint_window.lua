-- A window matters where sequences are longer than it.
-- expect-error: error_checkpoint_window.lua:8: train.seq_len is 9, but in the checkpoint '<scripts>/checkpoint_window' attention sees 8 positions only ('sliding_window'); longer sequences are not supported
-- expect-error:   hint: set train.seq_len = 8 or less
local rush = require "optrush"

local exp = rush.experiment { name = "window", model = rush.checkpoint "checkpoint_window", train = { seq_len = 8 } }
exp:ladder {
  rush.rung("longer", { train = { seq_len = 9 } }),
}
exp:run()
