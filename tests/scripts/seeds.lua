-- A seed for each round: a list, or a number of seeds from train.seed on.
-- expect: run listed/local, rounds 3
-- expect: seeds: [7,8,10]
-- expect: stop behind: 1.5
-- expect: target loss: 3.25
-- expect: base 0 'base': /train/seed=7
-- expect: run counted/local, rounds 2
-- expect: seeds: [5,6]
-- expect: base 0 'base': /train/seed=5
local rush = require "optrush"

rush.experiment({
  name = "listed",
  model = rush.llama(),
  seeds = { 7, 8, 10 },
  target_loss = 3.25,
  stop_behind = 1.5,
}):run()

rush.experiment({ name = "counted", model = rush.llama(), train = { seed = 5 }, seeds = 2 }):run()
