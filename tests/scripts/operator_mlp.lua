-- MLPs alone: by their fields, changed by a rung, in the place of a Llama and back.
-- expect: operator_mlp.lua:22: rush.operator: unknown field 'n_layers'
-- expect:   hint: one of: dim, ffn_dim, n_heads, repeat, vocab_size
-- expect: operator_mlp.lua:22: rush.operator: unknown field 'dime'
-- expect:   hint: did you mean 'dim'?
-- expect: cpu
-- expect: operator_mlp.lua:25: unknown field 'n_layers' of model
-- expect:   hint: one of: dim, ffn_dim, n_heads, op, repeat, vocab_size
local rush = require "optrush"

local exp = rush.experiment {
  name = "stack",
  model = rush.operator("mlp", { dim = 512, ffn_dim = 2048, ["repeat"] = 2 }),
}
exp:ladder {
  rush.rung("wider", { model = { dim = 1024, ffn_dim = 4096 } }),
  rush.rung("deeper", { model = { ["repeat"] = 3 } }),
  rush.rung("a Llama", { model = rush.llama "nano" }),
  rush.rung("one", { model = rush.operator "mlp" }),
}
for _, field in ipairs { "n_layers", "dime" } do
  print(select(2, pcall(rush.operator, "mlp", { [field] = 4 })))
end
print(rush.device())
print(select(2, pcall(exp.ladder, exp, { rush.rung("heads", { model = { n_layers = 4 } }) })))
exp:run()
