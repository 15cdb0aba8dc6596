local rush = require "optrush"
local function helper() return rush.rung("x", "fused_adam") end
helper()
