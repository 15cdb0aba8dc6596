-- A checkpoint gives every field of its model; a rung may go from one to the other.
-- expect: run checkpoint/local, rounds 5
-- expect: base 0 'base': /model/vocab_size gone /model/dim gone /model/n_layers gone /model/n_heads gone /model/n_kv_heads gone /model/head_dim gone /model/ffn_dim gone /model/norm gone /model/norm_eps gone /model/rope_theta gone /model/rope_scaling gone /model/tie_embeddings gone /model/init_std gone /model/checkpoint="<scripts>/checkpoint"
-- expect: ladder 1 'random weights' over 0: model={"vocab_size":256,"dim":64,"n_layers":2,"n_heads":4,"n_kv_heads":2,"head_dim":0,"ffn_dim":172,"norm":"rmsnorm","norm_eps":1e-05,"rope_theta":10000.0,"rope_scaling":{"factor":1.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position":8192},"tie_embeddings":true,"init_std":0.02} (checkpoint.lua:10)
-- expect: ladder 2 'checkpoint again' over 1: model={"checkpoint":"<scripts>/checkpoint"} (checkpoint.lua:11)
local rush = require "optrush"

local exp = rush.experiment { name = "checkpoint", model = rush.checkpoint "checkpoint" }
exp:ladder {
  rush.rung("random weights", { model = rush.llama "nano" }),
  rush.rung("checkpoint again", { model = rush.checkpoint "checkpoint" }),
}
exp:run()
