-- Two bases to measure against: rush.experiment { plugins = require "bases".sane, ... }
return {
  -- fp32, plain attention, one AdamW update per tensor: the base of the quickstart.
  naive = {},
  -- What a careful engineer has switched on already, so that no weak base sells a ladder.
  sane = { { "mixed_precision", { dtype = "bf16" } }, "flash_attention", "fused_adamw" },
}
