-- Which flags of a training script pay on this machine?
--
-- program/train.py beside this file stands for your script. Its flags are the rungs:
--
--   ./optrush run experiments/program.lua
--
-- To measure yours, give its command and its flags, and state its batch (docs/guides/your_script.md).
local rush = require "optrush"
local own = require "own_model"
own.none "the program has its own model"

local exp = rush.experiment {
  name = "program",
  question = "Which flags of this training script pay on this machine?",
  program = { command = { "{python}", "program/train.py" } },
  train = { micro_batch = 8, seq_len = 64, steps = 24, warmup = 4 },
}
exp:ladder {
  rush.rung("cached powers", { args = "--cache" }),
  rush.rung("no garbage collection", { args = "--no-gc" }),
}
exp:run({ rounds = 3 }):report()
