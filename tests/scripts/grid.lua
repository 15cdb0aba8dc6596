-- Every combination; named axes are in alphabetical order, listed axes in the order of the list.
-- expect: false	grid.lua:38: exp:grid: columns must be a list of strings from 'tokens_per_second', 'step_time', 'peak_memory', 'activations', 'flops_per_second', 'mfu', 'hfu', 'data_time', 'forward_time', 'backward_time', 'optimizer_time', 'exposed_time', 'loss', 'validation_loss', 'time_to_loss', 'steps_to_loss', 'compile_time', 'forward_bandwidth', 'backward_bandwidth', 'forward_bandwidth_share', 'backward_bandwidth_share', 'forward_flops', 'backward_flops', 'intensity', 'algorithm_bandwidth', 'bus_bandwidth', 'collective_time', but is ["forward_tim"]
-- expect:   hint: did you mean 'forward_time'?
-- expect: false	grid.lua:39: exp:grid: against names 'c', which is not a rung of the grid
-- expect:   hint: did you mean 'a'?
-- expect: false	grid.lua:40: exp:grid: x and curves must be given together
-- expect:   hint: x = "train.seq_len", curves = { "peak_memory" }
-- expect: false	grid.lua:41: exp:grid: 'train.dtype' is not a numeric setting
-- expect:   hint: for example x = "train.seq_len"
-- expect: false	grid.lua:42: exp:grid: x and curves must be given together
-- expect:   hint: x = "train.seq_len", curves = { "peak_memory" }
-- expect: false	grid.lua:43: exp:grid: 1 names for 2 axes
-- expect:   hint: name each axis, or none
-- expect: false	grid.lua:44: exp:grid: against names 'a', which is a rung on several axes
-- expect:   hint: give the rungs of each axis unique names
-- expect: run grid/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172
-- expect: grid 1 'b1 + fp32' over 0: train={"micro_batch":1} (grid.lua:30)
-- expect: grid 2 'b1 + bf16' over 0: +mixed_precision {"dtype":"bf16"} train={"micro_batch":1} (grid.lua:30)
-- expect: grid 3 'b2 + fp32' over 0: train={"micro_batch":2} (grid.lua:30)
-- expect: grid 4 'b2 + bf16' over 0: +mixed_precision {"dtype":"bf16"} train={"micro_batch":2} (grid.lua:30)
-- expect: grid 5 'long + flash' over 0: +flash_attention train={"seq_len":1024} (grid.lua:35)
-- expect: grid 6 'long + plain' over 0: train={"seq_len":1024} (grid.lua:35)
-- expect: grid 7 's8' over 0: train={"seq_len":8} (grid.lua:45)
-- expect: grid 8 's16' over 0: train={"seq_len":16} (grid.lua:45)
local rush = require "optrush"

local exp = rush.experiment { name = "grid", model = rush.llama "nano" }
exp:grid {
  precision = { rush.rung("fp32"), rush.rung("bf16", "mixed_precision") },
  batch = { rush.rung("b1", { train = { micro_batch = 1 } }), rush.rung("b2", { train = { micro_batch = 2 } }) },
}
exp:grid {
  { rush.rung("long", { train = { seq_len = 1024 } }) },
  { rush.rung("flash", "flash_attention"), rush.rung("plain") },
}
local axes = { { rush.rung("a") }, { rush.rung("b") } }
print(pcall(exp.grid, exp, axes, { columns = { "forward_tim" } }))
print(pcall(exp.grid, exp, axes, { against = "c" }))
print(pcall(exp.grid, exp, axes, { x = "train.seq_len" }))
print(pcall(exp.grid, exp, axes, { x = "train.dtype", curves = { "mfu" } }))
print(pcall(exp.grid, exp, axes, { x = "", curves = { "mfu" } }))
print(pcall(exp.grid, exp, axes, { axes = { "a" }, columns = { "mfu" } }))
print(pcall(exp.grid, exp, { { rush.rung("a") }, { rush.rung("a") } }, { against = "a" }))
exp:grid({ length = { rush.rung("s8", { train = { seq_len = 8 } }), rush.rung("s16", { train = { seq_len = 16 } }) } }, {
  columns = { "forward_time", "peak_memory" },
  against = "s8",
  x = "train.seq_len",
  curves = { "peak_memory" },
})
exp:run()
