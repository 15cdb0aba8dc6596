-- A checkpoint gives every field of its model; a rung may replace a checkpoint by a model, and the reverse.
-- expect: run checkpoint/local, rounds 5
-- expect: base 0 'base': /model/vocab_size gone /model/dim gone /model/n_layers gone /model/n_heads gone /model/n_kv_heads gone /model/head_dim gone /model/ffn_dim gone /model/activation gone /model/norm gone /model/norm_placement gone /model/norm_eps gone /model/qk_norm gone /model/attention_bias gone /model/attention_scale gone /model/embedding_scale gone /model/residual_scale gone /model/logits_divisor gone /model/attention_soft_cap gone /model/logits_soft_cap gone /model/position gone /model/rope_theta gone /model/rope_scaling gone /model/layers_without_rope gone /model/window gone /model/full_attention_layers gone /model/window_rope_theta gone /model/n_experts gone /model/experts_per_token gone /model/expert_ffn_dim gone /model/shared_expert_ffn_dim gone /model/normalize_router gone /model/dense_layers gone /model/tie_embeddings gone /model/init_std gone /model/checkpoint="<scripts>/checkpoint"
-- expect: ladder 1 'random weights' over 0: model={"vocab_size":256,"dim":64,"n_layers":2,"n_heads":4,"n_kv_heads":2,"head_dim":0,"ffn_dim":172,"activation":"silu","norm":"rmsnorm","norm_placement":"before","norm_eps":1e-05,"qk_norm":"none","attention_bias":"none","attention_scale":0.0,"embedding_scale":1.0,"residual_scale":1.0,"logits_divisor":1.0,"attention_soft_cap":0.0,"logits_soft_cap":0.0,"position":"rope","rope_theta":10000.0,"rope_scaling":{"type":"llama3","factor":1.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position":8192,"beta_fast":32.0,"beta_slow":1.0,"attention_factor":0.0,"truncate":true},"layers_without_rope":[],"window":0,"full_attention_layers":[],"window_rope_theta":0.0,"n_experts":0,"experts_per_token":2,"expert_ffn_dim":0,"shared_expert_ffn_dim":0,"normalize_router":true,"dense_layers":[],"tie_embeddings":true,"init_std":0.02} (checkpoint.lua:10)
-- expect: ladder 2 'checkpoint again' over 1: model={"checkpoint":"<scripts>/checkpoint"} (checkpoint.lua:11)
local rush = require "optrush"

local exp = rush.experiment { name = "checkpoint", model = rush.checkpoint "checkpoint" }
exp:ladder {
  rush.rung("random weights", { model = rush.llama "nano" }),
  rush.rung("checkpoint again", { model = rush.checkpoint "checkpoint" }),
}
exp:run()
