-- Arguments with defaults, and all ways to read them.
-- expect: 4	0.5	fast	true
-- expect: false	arguments.lua:22: rush.arg: 'n layers' is not a valid argument name
-- expect:   hint: use lower-case letters, digits and '_', as in --arg layers=8
-- expect: false	arguments.lua:23: rush.arg: default must be a number, a string, true or false, but is an empty table
-- expect: false	arguments.lua:24: rush.arg: the default must be one of 'fast', 'slow', but is "fsat"
-- expect:   hint: did you mean 'fast'?
-- expect: false	arguments.lua:25: rush.arg: choices need a string default, but the default is 4
-- expect: false	arguments.lua:26: the argument layers was read before with a different default: 4
-- expect:   hint: read it once, and keep the value in a local variable
-- expect: run arguments/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172
local rush = require "optrush"

local layers = rush.arg("layers", 4)
print(layers, rush.arg("share", 0.5), rush.arg("mode", "fast", { "fast", "slow" }), rush.arg("flag", true))
assert(rush.arg("layers", 4) == layers)

-- Each bad argument is refused at its line.
local pcall = pcall

print(pcall(rush.arg, "n layers", 4))
print(pcall(rush.arg, "size", {}))
print(pcall(rush.arg, "size", "fsat", { "fast", "slow" }))
print(pcall(rush.arg, "size", 4, { "fast" }))
print(pcall(rush.arg, "layers", 8))

rush.experiment({ name = "arguments", model = rush.llama("nano", { n_layers = layers }) }):run()
