-- A script that describes nothing.
-- expect-error: error_empty.lua: the script describes no experiment
-- expect-error:   hint: write rush.experiment { ... }, then exp:run():report()
local _ = 1
