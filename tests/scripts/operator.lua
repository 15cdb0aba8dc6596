-- An experiment with one operator.
-- expect: run operator/local, rounds 5
-- expect: base 0 'base': /model_kind="operator" /model/vocab_size=32000 /model/dim=64 /model/n_layers gone /model/n_heads=16 /model/n_kv_heads gone /model/head_dim gone /model/ffn_dim=4096 /model/activation gone /model/norm gone /model/norm_placement gone /model/norm_eps gone /model/qk_norm gone /model/attention_bias gone /model/attention_scale gone /model/embedding_scale gone /model/residual_scale gone /model/logits_divisor gone /model/attention_soft_cap gone /model/logits_soft_cap gone /model/position gone /model/rope_theta gone /model/rope_scaling gone /model/layers_without_rope gone /model/window gone /model/full_attention_layers gone /model/window_rope_theta gone /model/n_experts gone /model/experts_per_token gone /model/expert_ffn_dim gone /model/shared_expert_ffn_dim gone /model/normalize_router gone /model/dense_layers gone /model/tie_embeddings gone /model/init_std gone /model/op="norm" /model/repeat=1 /train/lr=0.01
-- expect: ladder 1 'wider' over 0: model={"dim":128} (operator.lua:20)
-- expect: ladder 2 'attention' over 1: model={"op":"attention","n_heads":4,"repeat":2} (operator.lua:21)
-- expect: false	operator.lua:25: rush.operator: op must be one of 'norm', 'add_norm', 'position', 'attention', 'swiglu', 'linear', 'mlp', 'head_loss', but is "nrom"
-- expect:   hint: did you mean 'norm'?
-- expect: false	operator.lua:26: model.dim (100) is not a multiple of model.n_heads (16)
-- expect:   hint: change one of them
-- expect: false	operator.lua:27: heads of 3 cannot be rotated in pairs
-- expect:   hint: make model.dim / model.n_heads even
-- expect: false	operator.lua:28: model.repeat does not apply to head_loss, whose output is a single number
-- expect:   hint: leave it out
-- expect: false	operator.lua:29: rush.operator: unknown field 'width'
-- expect:   hint: one of: dim, ffn_dim, n_heads, repeat, vocab_size
local rush = require "optrush"

local exp = rush.experiment { name = "operator", model = rush.operator("norm", { dim = 64 }), train = { lr = 1e-2 } }
exp:ladder {
  rush.rung("wider", { model = { dim = 128 } }),
  rush.rung("attention", { model = rush.operator("attention", { dim = 128, n_heads = 4, ["repeat"] = 2 }) }),
}
exp:run()

print(pcall(rush.operator, "nrom"))
print(pcall(rush.operator, "attention", { dim = 100, n_heads = 16 }))
print(pcall(rush.operator, "position", { dim = 48, n_heads = 16 }))
print(pcall(rush.operator, "head_loss", { ["repeat"] = 2 }))
print(pcall(rush.operator, "norm", { width = 2 }))
