-- rush.plugins lists the plugins that a stack may have.
-- expect: activation_checkpointing	1.0	optimization	exact	what activation_checkpointing does
-- expect: 	policy	string	full	which
-- expect: 	every	integer	2	n
-- expect: gradient_accumulation	1.0	optimization	batch	what gradient_accumulation does
-- expect: 	steps	integer	nil	micro-batches
-- expect: run plugins/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172
local rush = require "optrush"

for _, plugin in ipairs(rush.plugins()) do
  if plugin.name == "activation_checkpointing" or plugin.name == "gradient_accumulation" then
    print(plugin.name, plugin.version, plugin.kind, plugin.effect, plugin.summary)
    for _, option in ipairs(plugin.options) do
      print("", option.name, option.type, option.default, option.doc)
    end
  end
end
rush.experiment { name = "plugins", model = rush.llama "nano" }:run()
