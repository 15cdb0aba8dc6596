-- The script of the README: plugins and plain settings, each on top of the one before.
-- expect: run quickstart/local, rounds 3
-- expect: question: Which optimizations pay on this machine?
-- expect: base 0 'base': /model/n_layers=8 /data/kind="text" /data/path="<torch>/include" /data/extensions/-=".h"
-- expect: ladder 1 'bf16 autocast' over 0: +mixed_precision {"dtype":"bf16"} (ladder.lua:21)
-- expect: ladder 2 'fused AdamW' over 1: +fused_adamw (ladder.lua:22)
-- expect: ladder 3 'FlashAttention' over 2: +flash_attention (ladder.lua:23)
-- expect: ladder 4 'micro-batch 8' over 3: train={"micro_batch":8} (ladder.lua:24)
-- expect: ladder 5 'checkpointing' over 4: +activation_checkpointing {"policy":"full","every":2} (ladder.lua:25)
-- expect: report of reports/quickstart/local
local rush = require "optrush"

local exp = rush.experiment {
  name = "quickstart",
  question = "Which optimizations pay on this machine?",
  model = rush.llama("tiny", { n_layers = 8 }),
  data = rush.text(rush.corpus "libtorch"),
  train = { micro_batch = 4, seq_len = 512, steps = 10, warmup = 3, seed = 1, lr = 3e-4 },
}
exp:ladder {
  rush.rung("bf16 autocast", "mixed_precision", { dtype = "bf16" }),
  rush.rung("fused AdamW", "fused_adamw"),
  rush.rung("FlashAttention", "flash_attention"),
  rush.rung("micro-batch 8", { train = { micro_batch = 8 } }),
  rush.rung("checkpointing", "activation_checkpointing", { policy = "full" }),
}
exp:run({ rounds = 3 }):report()
