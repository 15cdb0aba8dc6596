-- A stack of MLPs: by its fields, changed by a rung, in the place of a Llama and back.
-- expect: swiglu_stack.lua:25: rush.swiglu_stack: unknown field 'n_heads'
-- expect:   hint: one of: dim, ffn_dim, init_std, n_layers
-- expect: swiglu_stack.lua:25: rush.swiglu_stack: unknown field 'dime'
-- expect:   hint: did you mean 'dim'?
-- expect: cpu
-- expect: swiglu_stack.lua:28: unknown field 'n_heads' of model
-- expect:   hint: one of: dim, ffn_dim, init_std, n_layers
-- expect: run stack/local, rounds 5
-- expect: base 0 'base': /model_kind="swiglu_stack" /model/vocab_size gone /model/dim=512 /model/n_layers=2 /model/n_heads gone /model/n_kv_heads gone /model/head_dim gone /model/ffn_dim=2048 /model/norm gone /model/norm_eps gone /model/rope_theta gone /model/rope_scaling gone /model/tie_embeddings gone /model/init_std=0.0
-- expect: ladder 1 'wider' over 0: model={"dim":1024,"ffn_dim":4096} (swiglu_stack.lua:19)
-- expect: ladder 2 'deeper' over 1: model={"n_layers":3} (swiglu_stack.lua:20)
-- expect: ladder 3 'a Llama' over 2: model_kind="llama" model={"vocab_size":256,"dim":64,"n_layers":2,"n_heads":4,"n_kv_heads":2,"head_dim":0,"ffn_dim":172,"norm":"rmsnorm","norm_eps":1e-05,"rope_theta":10000.0,"rope_scaling":{"factor":1.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position":8192},"tie_embeddings":true,"init_std":0.02} (swiglu_stack.lua:21)
-- expect: ladder 4 'the default stack' over 3: model_kind="swiglu_stack" model={"dim":256,"ffn_dim":1024,"n_layers":4,"init_std":0.0} (swiglu_stack.lua:22)
local rush = require "optrush"

local exp = rush.experiment { name = "stack", model = rush.swiglu_stack { dim = 512, ffn_dim = 2048, n_layers = 2 } }
exp:ladder {
  rush.rung("wider", { model = { dim = 1024, ffn_dim = 4096 } }),
  rush.rung("deeper", { model = { n_layers = 3 } }),
  rush.rung("a Llama", { model = rush.llama "nano" }),
  rush.rung("the default stack", { model = rush.swiglu_stack() }),
}
for _, field in ipairs { "n_heads", "dime" } do
  print(select(2, pcall(rush.swiglu_stack, { [field] = 4 })))
end
print(rush.device())
print(select(2, pcall(exp.ladder, exp, { rush.rung("heads", { model = { n_heads = 4 } }) })))
exp:run()
