-- Every form of rush.rung, and chains of calls.
-- expect: run forms/kept, rounds 7
-- expect: price: 2.5 EUR
-- expect: base 0 'base': +fused_adamw +lora {"rank":4,"alpha":16.0,"target_modules":[]} /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172 /device="cpu" /threads=2 /timeout_s=60.5
-- expect: ladder 1 'nothing' over 0: (rung_forms.lua:32)
-- expect: ladder 2 'plugin' over 1: +mixed_precision {"dtype":"bf16"} (rung_forms.lua:33)
-- expect: ladder 3 'plugin and settings' over 2: +flash_attention train={"lr":0.001} (rung_forms.lua:34)
-- expect: ladder 4 'options and settings' over 3: +activation_checkpointing {"policy":"every","every":4} threads=1 (rung_forms.lua:35)
-- expect: ladder 5 'settings' over 4: train={"steps":12} device="auto" timeout_s=30.0 (rung_forms.lua:36)
-- expect: ladder 6 'model fields' over 5: model={"n_layers":1} (rung_forms.lua:37)
-- expect: ladder 7 'model' over 6: model={"dim":256,"n_layers":4,"n_heads":8,"n_kv_heads":4,"ffn_dim":688} (rung_forms.lua:38)
-- expect: ladder 8 'data' over 7: data={"kind":"text","path":"<scripts>/ladder.lua"} (rung_forms.lua:39)
-- expect: ladder 9 'replace' over 8: +eight_bit -fused_adamw (rung_forms.lua:40)
-- expect: ladder 10 'several' over 9: +fused_adamw +gradient_accumulation {"steps":2} -lora -eight_bit (rung_forms.lua:41)
-- expect: ladder 11 'other options' over 10: +gradient_accumulation {"steps":4} (rung_forms.lua:42)
-- expect: ladder 12 'environment' over 11: env={"NCCL_ALGO":"Ring"} (rung_forms.lua:43)
-- expect: report of reports/forms/kept
-- expect: report of reports/forms/kept
local rush = require "optrush"

rush.experiment {
  name = "forms",
  model = rush.llama "nano",
  plugins = { "fused_adamw", { "lora", { rank = 4, target_modules = {} } } },
  device = "cpu",
  threads = 2,
  timeout = 60.5,
  rounds = 7,
  price_per_hour = 2.5,
  currency = "EUR",
}:ladder {
  rush.rung("nothing"),
  rush.rung("plugin", "mixed_precision"),
  rush.rung("plugin and settings", "flash_attention", nil, { train = { lr = 1e-3 } }),
  rush.rung("options and settings", "activation_checkpointing", { policy = "every", every = 4 }, { threads = 1 }),
  rush.rung("settings", { train = { steps = 12 }, device = "auto", timeout = 30 }),
  rush.rung("model fields", { model = { n_layers = 1 } }),
  rush.rung("model", { model = rush.llama "tiny" }),
  rush.rung("data", { data = rush.text "ladder.lua" }),
  rush.rung("replace", "eight_bit", {}, { replace = "fused_adamw" }),
  rush.rung("several", { plugins = { "fused_adamw", { "gradient_accumulation", { steps = 2 } } }, without = { "eight_bit", "lora" } }),
  rush.rung("other options", "gradient_accumulation", { steps = 4 }, { replace = { "gradient_accumulation" } }),
  rush.rung("environment", { env = { NCCL_ALGO = "Ring" } }),
}:run { label = "kept" }:report():report()
