-- A rung does not choose the seed of a round.
-- expect-error: error_seeds.lua:7: rung 'other seed' sets train.seed, but the rounds of this experiment have its 3 seeds
-- expect-error:   hint: leave out train.seed, or list the seeds: seeds = { 7, 8, 9 } (--set seeds=[7,8,9])
local rush = require "optrush"
local exp = rush.experiment { name = "seeds", model = rush.llama "nano", seeds = 3 }
exp:ladder {
  rush.rung("other seed", { train = { seed = 9 } }),
}
exp:run()
