-- An experiment with MLPs: their fields, changes by a rung, and a change from a Llama and back.
-- expect: operator_mlp.lua:28: rush.operator: unknown field 'n_layers'
-- expect:   hint: one of: dim, ffn_dim, n_heads, repeat, vocab_size
-- expect: operator_mlp.lua:28: rush.operator: unknown field 'dime'
-- expect:   hint: did you mean 'dim'?
-- expect: cpu
-- expect: operator_mlp.lua:31: unknown field 'n_layers' of model
-- expect:   hint: one of: dim, ffn_dim, n_heads, op, repeat, vocab_size
-- expect: run stack/local, rounds 5
-- expect: base 0 'base': /model_kind="operator" /model/vocab_size=32000 /model/dim=512 /model/n_layers gone /model/n_heads=16 /model/n_kv_heads gone /model/head_dim gone /model/ffn_dim=2048 /model/activation gone /model/norm gone /model/norm_placement gone /model/norm_eps gone /model/qk_norm gone /model/attention_bias gone /model/attention_scale gone /model/embedding_scale gone /model/residual_scale gone /model/logits_divisor gone /model/attention_soft_cap gone /model/logits_soft_cap gone /model/position gone /model/rope_theta gone /model/rope_scaling gone /model/layers_without_rope gone /model/window gone /model/full_attention_layers gone /model/window_rope_theta gone /model/n_experts gone /model/experts_per_token gone /model/expert_ffn_dim gone /model/shared_expert_ffn_dim gone /model/normalize_router gone /model/dense_layers gone /model/tie_embeddings gone /model/init_std gone /model/op="mlp" /model/repeat=2
-- expect: ladder 1 'wider' over 0: model={"dim":1024,"ffn_dim":4096} (operator_mlp.lua:22)
-- expect: ladder 2 'deeper' over 1: model={"repeat":3} (operator_mlp.lua:23)
-- expect: ladder 3 'a Llama' over 2: model_kind="llama" model={"vocab_size":256,"dim":64,"n_layers":2,"n_heads":4,"n_kv_heads":2,"head_dim":0,"ffn_dim":172,"activation":"silu","norm":"rmsnorm","norm_placement":"before","norm_eps":1e-05,"qk_norm":"none","attention_bias":"none","attention_scale":0.0,"embedding_scale":1.0,"residual_scale":1.0,"logits_divisor":1.0,"attention_soft_cap":0.0,"logits_soft_cap":0.0,"position":"rope","rope_theta":10000.0,"rope_scaling":{"type":"llama3","factor":1.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position":8192,"beta_fast":32.0,"beta_slow":1.0,"attention_factor":0.0,"truncate":true},"layers_without_rope":[],"window":0,"full_attention_layers":[],"window_rope_theta":0.0,"n_experts":0,"experts_per_token":2,"expert_ffn_dim":0,"shared_expert_ffn_dim":0,"normalize_router":true,"dense_layers":[],"tie_embeddings":true,"init_std":0.02} (operator_mlp.lua:24)
-- expect: ladder 4 'one' over 3: model_kind="operator" model={"op":"mlp","dim":1024,"n_heads":16,"ffn_dim":4096,"vocab_size":32000,"repeat":1} (operator_mlp.lua:25)
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
