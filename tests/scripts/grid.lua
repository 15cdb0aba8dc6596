-- Every combination; named axes come in the order of their names, listed axes as they are listed.
-- expect: run grid/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172
-- expect: grid 1 'b1 + fp32' over 0: train={"micro_batch":1} (grid.lua:14)
-- expect: grid 2 'b1 + bf16' over 0: +mixed_precision {"dtype":"bf16"} train={"micro_batch":1} (grid.lua:14)
-- expect: grid 3 'b2 + fp32' over 0: train={"micro_batch":2} (grid.lua:14)
-- expect: grid 4 'b2 + bf16' over 0: +mixed_precision {"dtype":"bf16"} train={"micro_batch":2} (grid.lua:14)
-- expect: grid 5 'long + flash' over 0: +flash_attention train={"seq_len":1024} (grid.lua:19)
-- expect: grid 6 'long + plain' over 0: train={"seq_len":1024} (grid.lua:19)
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
exp:run()
