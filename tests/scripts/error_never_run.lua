-- An experiment that is described and not run.
-- expect-error: error_never_run.lua:5: experiment 'idle' is not run
-- expect-error:   hint: end the script with exp:run():report()
local rush = require "optrush"
rush.experiment { name = "idle", model = rush.llama "nano" }
