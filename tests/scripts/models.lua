-- Presets, overrides, and models without a preset.
-- expect: run model1/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172
-- expect: run model2/local, rounds 5
-- expect: base 0 'base':
-- expect: run model3/local, rounds 5
-- expect: base 0 'base': /model/dim=512 /model/n_layers=8 /model/ffn_dim=1376
-- expect: run model4/local, rounds 5
-- expect: base 0 'base': /model/vocab_size=128256 /model/dim=2048 /model/n_layers=16 /model/n_heads=32 /model/n_kv_heads=8 /model/head_dim=64 /model/ffn_dim=8192 /model/rope_theta=500000.0 /model/rope_scaling/factor=32.0
-- expect: run model5/local, rounds 5
-- expect: base 0 'base': /model/vocab_size=128256 /model/dim=3072 /model/n_layers=28 /model/n_heads=24 /model/n_kv_heads=8 /model/head_dim=128 /model/ffn_dim=8192 /model/rope_theta=500000.0 /model/rope_scaling/factor=32.0
-- expect: run model6/local, rounds 5
-- expect: base 0 'base': /model/vocab_size=128256 /model/dim=4096 /model/n_layers=32 /model/n_heads=32 /model/n_kv_heads=8 /model/head_dim=128 /model/ffn_dim=14336 /model/rope_theta=500000.0 /model/rope_scaling/factor=8.0 /model/tie_embeddings=false
-- expect: run model7/local, rounds 5
-- expect: base 0 'base': /model/vocab_size=50304 /model/dim=2048 /model/n_layers=16 /model/n_heads=16 /model/n_kv_heads=16 /model/ffn_dim=8192 /model/norm="layernorm_without_parameters"
-- expect: run model8/local, rounds 5
-- expect: base 0 'base':
-- expect: run model9/local, rounds 5
-- expect: base 0 'base': /model/dim=96 /model/n_heads=6 /model/n_kv_heads=3
-- expect: run model10/local, rounds 5
-- expect: base 0 'base': /model/vocab_size=128256 /model/dim=2048 /model/n_layers=16 /model/n_heads=32 /model/n_kv_heads=8 /model/head_dim=64 /model/ffn_dim=8192 /model/rope_theta=500000.0 /model/rope_scaling/factor=8.0 /model/tie_embeddings=false
-- expect: run model11/local, rounds 5
-- expect: base 0 'base': /model/norm="layernorm"
local rush = require "optrush"

for i, model in ipairs {
  rush.llama "nano", rush.llama "tiny", rush.llama "small", rush.llama "llama-3.2-1b", rush.llama "llama-3.2-3b",
  rush.llama "llama-3.1-8b", rush.llama "olmo-1b", rush.llama(), rush.llama { dim = 96, n_heads = 6, n_kv_heads = 3.0 },
  rush.llama("llama-3.2-1b", { rope_scaling = { factor = 8 }, tie_embeddings = false }),
  rush.llama(nil, { norm = "layernorm" }),
} do
  rush.experiment { name = "model" .. i, model = model }:run()
end
