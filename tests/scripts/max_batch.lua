-- Each rung of a ladder at the largest micro-batch that fits; the forecast here is one byte a token.
-- expect: 4	8	0	4
-- expect: nil
-- expect: run max_batch/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172 /train/micro_batch=16 /train/accumulation=3
-- expect: ladder 1 'fused' over 0: +fused_adamw train={"micro_batch":8,"accumulation":6} (max_batch.lua:34)
-- expect: ladder 2 'long' over 1: train={"micro_batch":2,"accumulation":24,"seq_len":2048} (max_batch.lua:35)
-- expect: ladder 3 'short again' over 2: train={"micro_batch":16,"accumulation":3,"seq_len":256} (max_batch.lua:36)
-- expect: false	max_batch.lua:40: exp:ladder: no GPU was found, so its memory is unknown
-- expect:   hint: give the memory, for example memory = "16GB"
-- expect: false	max_batch.lua:44: rung 'b' sets train.micro_batch, but batch = "max" chooses the batch
-- expect:   hint: remove the setting, or move this rung to a ladder without batch = "max"
-- expect: false	max_batch.lua:45: rung 'b': the memory of its step cannot be predicted
-- expect:   hint: set trial = true to find the batch by test runs
-- expect: false	max_batch.lua:42: rung 'another': not even one sequence fits into 100 bytes
-- expect:   hint: raise memory, or use a shorter sequence or a smaller model
-- expect: false	max_batch.lua:40: exp:ladder: memory and trial need batch = "max"
-- expect:   hint: batch = "max"
-- expect: false	max_batch.lua:40: exp:ladder: memory is 'much'
-- expect:   hint: give bytes, or "20GB", "512MB", "16GiB"
-- expect: false	max_batch.lua:40: exp:ladder: batch must be one of 'same', 'max', but is "most"
local rush = require "optrush"

local nano = rush.llama "nano"
local function most(memory, trial)
  return rush.max_batch { model = nano, train = { seq_len = 1024 }, memory = memory, trial = trial }
end
print(most(5000), most "0.01MB", most(1000), most(5000, true))
print(rush.max_batch { model = nano, plugins = { "lora" }, memory = 1e9 })

local train = { micro_batch = 16, accumulation = 3, seq_len = 512 }
local exp = rush.experiment { name = "max_batch", model = nano, train = train }
exp:ladder({
  rush.rung("fused", "fused_adamw"),
  rush.rung("long", { train = { seq_len = 2048 } }),
  rush.rung("short again", { train = { seq_len = 256 } }),
}, { batch = "max", memory = 5000 })
exp:run()

local function refused(rung, options) print(pcall(exp.ladder, exp, { rung }, options)) end
local max = { batch = "max", memory = 5000 }
local another = rush.rung("another", "flash_attention")
refused(another, { batch = "max" })
refused(rush.rung("b", { train = { micro_batch = 2 } }), max)
refused(rush.rung("b", "lora"), max)
refused(another, { batch = "max", memory = 100 })
refused(another, { memory = 5000 })
refused(another, { batch = "max", memory = "much" })
refused(another, { batch = "most" })
