-- An experiment with one collective.
-- expect: run collective/local, rounds 5
-- expect: base 0 'base': /model_kind="collective" /model/vocab_size gone /model/dim gone /model/n_layers gone /model/n_heads gone /model/n_kv_heads gone /model/head_dim gone /model/ffn_dim gone /model/activation gone /model/norm gone /model/norm_placement gone /model/norm_eps gone /model/qk_norm gone /model/attention_bias gone /model/attention_scale gone /model/embedding_scale gone /model/residual_scale gone /model/logits_divisor gone /model/attention_soft_cap gone /model/logits_soft_cap gone /model/position gone /model/rope_theta gone /model/rope_scaling gone /model/layers_without_rope gone /model/window gone /model/full_attention_layers gone /model/window_rope_theta gone /model/n_experts gone /model/experts_per_token gone /model/expert_ffn_dim gone /model/shared_expert_ffn_dim gone /model/normalize_router gone /model/dense_layers gone /model/tie_embeddings gone /model/init_std gone /model/op="all_reduce" /model/bytes=4096 /model/repeat=1 /train/world_size=2
-- expect: grid 1 'all_gather + 64 KiB' over 0: model={"op":"all_gather","bytes":65536,"repeat":5} (collective.lua:17)
-- expect: false	collective.lua:21: rush.collective: op must be one of 'all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'send_recv', but is "allreduce"
-- expect:   hint: did you mean 'all_reduce'?
-- expect: false	collective.lua:22: rush.collective: bytes must be an integer between 4 and 68719476736, but is 0
local rush = require "optrush"

local exp = rush.experiment {
  name = "collective",
  model = rush.collective("all_reduce", { bytes = 4096 }),
  train = { world_size = 2 },
}
exp:grid {
  { rush.rung("all_gather", { model = rush.collective "all_gather" }) },
  { rush.rung("64 KiB", { model = { bytes = 65536, ["repeat"] = 5 } }) },
}
exp:run()

print(pcall(rush.collective, "allreduce"))
print(pcall(rush.collective, "send_recv", { bytes = 0 }))
