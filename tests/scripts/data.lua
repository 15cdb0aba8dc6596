-- Sources of data. Paths start at the script's folder.
-- expect: run data1/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172
-- expect: run data2/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172
-- expect: run data3/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172 /data/kind="text" /data/path="<scripts>/ladder.lua"
-- expect: run data4/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172 /data/kind="text" /data/path="<scripts>/modules" /data/extensions/-=".lua" /data/extensions/-=".txt"
-- expect: run data5/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172 /data/kind="text" /data/path="<torch>/include" /data/extensions/-=".h"
-- expect: run data6/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172 /data/kind="text" /data/path="<torch>/include" /data/extensions/-=".hpp"
-- expect: run data7/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172 /data/kind="tokens" /data/path="<scripts>/data.lua"
-- expect: run data8/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172 /data/kind="documents" /data/path="<torch>/include" /data/extensions/-=".h"
-- expect: run data9/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172 /data/kind="preferences" /data/path="<torch>/include" /data/extensions/-=".h"
local rush = require "optrush"

local corpus = rush.corpus "libtorch"
for i, data in ipairs {
  rush.random(), rush.random {}, rush.text "ladder.lua", rush.text("modules", { extensions = { ".lua", ".txt" } }),
  rush.text(corpus), rush.text(corpus, { extensions = { ".hpp" } }), rush.tokens "data.lua", rush.documents(corpus),
  rush.preferences(corpus),
} do
  rush.experiment { name = "data" .. i, model = rush.llama "nano", data = data }:run()
end
