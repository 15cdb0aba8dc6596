-- Parts share the base; an experiment can run more than once.
-- expect: run parts/a, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172
-- expect: ladder 1 'bf16' over 0: +mixed_precision {"dtype":"bf16"} (several_parts.lua:24)
-- expect: ladder 2 'fused' over 1: +fused_adamw (several_parts.lua:24)
-- expect: full 3 'full' over 0: +mixed_precision {"dtype":"bf16"} +fused_adamw (several_parts.lua:24)
-- expect: without 4 'without bf16' over 3: -mixed_precision (several_parts.lua:24)
-- expect: without 5 'without fused' over 3: -fused_adamw (several_parts.lua:24)
-- expect: alone 6 'bf16 alone' over 0: +mixed_precision {"dtype":"bf16"} (several_parts.lua:24)
-- expect: alone 7 'fused alone' over 0: +fused_adamw (several_parts.lua:24)
-- expect: reports/parts/a
-- expect: run parts/b, rounds 2
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172
-- expect: ladder 1 'bf16' over 0: +mixed_precision {"dtype":"bf16"} (several_parts.lua:24)
-- expect: ladder 2 'fused' over 1: +fused_adamw (several_parts.lua:24)
-- expect: full 3 'full' over 0: +mixed_precision {"dtype":"bf16"} +fused_adamw (several_parts.lua:24)
-- expect: without 4 'without bf16' over 3: -mixed_precision (several_parts.lua:24)
-- expect: without 5 'without fused' over 3: -fused_adamw (several_parts.lua:24)
-- expect: alone 6 'bf16 alone' over 0: +mixed_precision {"dtype":"bf16"} (several_parts.lua:24)
-- expect: alone 7 'fused alone' over 0: +fused_adamw (several_parts.lua:24)
-- expect: report of reports/parts/b
local rush = require "optrush"

local rungs = { rush.rung("bf16", "mixed_precision"), rush.rung("fused", "fused_adamw") }
local exp = rush.experiment { name = "parts", model = rush.llama "nano" }
exp:ladder(rungs):ablation(rungs)
print(exp:run { label = "a" }.dir)
exp:run { label = "b", rounds = 2 }:report()
