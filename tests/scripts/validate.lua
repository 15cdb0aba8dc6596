-- Held-out data, a target loss, and a trace.
-- expect: run to_three/local, rounds 5
-- expect: target loss: 3.25
-- expect: traced
-- expect: base 0 'base': /data/kind="text" /data/path="<torch>/include" /data/extensions/-=".h" /validate/every=50 /validate/sequences=64
-- expect: ladder 1 'micro-batch 8' over 0: train={"micro_batch":8} (validate.lua:19)
-- expect: run other/local, rounds 5
-- expect: base 0 'base': /validate/every=5 /validate/data/kind="text" /validate/data/path="<torch>/include" /validate/data/extensions/-=".h"
local rush = require "optrush"

local exp = rush.experiment {
  name = "to_three",
  model = rush.llama(),
  data = rush.text(rush.corpus "libtorch"),
  validate = { every = 50, sequences = 64 },
  target_loss = 3.25,
}
exp:ladder {
  rush.rung("micro-batch 8", { train = { micro_batch = 8 } }),
}
exp:run { trace = true }

local other = rush.experiment {
  name = "other",
  model = rush.llama(),
  validate = { every = 5, data = rush.text(rush.corpus "libtorch") },
}
other:run()
