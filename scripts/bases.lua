-- Two bases to measure against: rush.experiment { plugins = require "bases".sane, ... }
return {
  -- fp32, plain attention, one AdamW update per tensor: the base of the quickstart.
  naive = {},
  -- The usual techniques, so that speedups are over a reasonable base.
  sane = { { "mixed_precision", { dtype = "bf16" } }, "flash_attention", "fused_adamw" },
}
