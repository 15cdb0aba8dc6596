-- expect-error: error_seeds_name.lua:4: rush.experiment: unknown field 'seed'
-- expect-error:   hint: did you mean train = { seed = ... }?
local rush = require "optrush"
rush.experiment { name = "seeds", model = rush.llama "nano", seed = 3 }
