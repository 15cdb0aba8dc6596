-- The whole stack, the stack without one rung at a time, and each rung alone. `replace` may lack its plugin.
-- expect: run ablation/local, rounds 1
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172
-- expect: full 1 'full' over 0: +mixed_precision {"dtype":"bf16"} +eight_bit train={"micro_batch":8} (ablation.lua:17)
-- expect: without 2 'without bf16' over 1: -mixed_precision (ablation.lua:17)
-- expect: without 3 'without fused' over 1: (ablation.lua:18)
-- expect: without 4 'without 8 bits' over 1: +fused_adamw -eight_bit (ablation.lua:19)
-- expect: without 5 'without batch' over 1: train={"micro_batch":4} (ablation.lua:20)
-- expect: alone 6 'bf16 alone' over 0: +mixed_precision {"dtype":"bf16"} (ablation.lua:17)
-- expect: alone 7 'fused alone' over 0: +fused_adamw (ablation.lua:18)
-- expect: alone 8 '8 bits alone' over 0: +eight_bit (ablation.lua:19)
-- expect: alone 9 'batch alone' over 0: train={"micro_batch":8} (ablation.lua:20)
local rush = require "optrush"

local exp = rush.experiment { name = "ablation", model = rush.llama "nano", data = rush.random {} }
exp:ablation {
  rush.rung("bf16", "mixed_precision"),
  rush.rung("fused", "fused_adamw"),
  rush.rung("8 bits", "eight_bit", {}, { replace = "fused_adamw" }),
  rush.rung("batch", { train = { micro_batch = 8 } }),
}
exp:run { rounds = 1 }
