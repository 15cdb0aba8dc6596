-- A script that describes an experiment and does not run it.
-- expect-error: error_never_run.lua:5: experiment 'idle' is not run
-- expect-error:   hint: end the script with exp:run():report()
local rush = require "optrush"
rush.experiment { name = "idle", model = rush.llama "nano" }
