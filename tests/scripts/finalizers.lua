-- Finalizers run at any moment; their errors and their calls have no effect.
-- expect: run finalizer/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172
local rush = require "optrush"
for i = 1, 2000 do
  setmetatable({}, { __gc = function() rush.llama "nano"; rush.plugins(); error "lost" end })
  rush.rung("r" .. i, "lora", { target_modules = { "a", "b" } })
end
rush.experiment { name = "finalizer", model = rush.llama "nano" }:run()
