-- Questions about the machine, rungs that branch, and published figures.
-- expect: cpu	nil
-- expect: short
-- expect: 8	0	4	nil
-- expect: false	machine.lua:46: rung 'b' is placed over 'flsh', which is not a rung below it
-- expect:   hint: one of: base
-- expect: run machine/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172
-- expect: ladder 1 'flash' over 0: +flash_attention expecting {"speedup":1.75,"memory":0.7,"source":"a paper","on":"A100-80GB, sequence 2048"} (machine.lua:41)
-- expect: ladder 2 'beside' over 0: +lora {"rank":4,"alpha":16.0,"target_modules":["q_proj"]} (machine.lua:44)
-- expect: false	machine.lua:49: rush.max_batch: no GPU was found, so its memory is unknown
-- expect:   hint: give the memory, for example memory = "16GB"
-- expect: false	machine.lua:50: rush.max_batch: unknown field 'memroy'
-- expect:   hint: did you mean 'memory'?
-- expect: false	machine.lua:51: rush.preset: no names
-- expect:   hint: give names, for example rush.preset { "short", "full" }
-- expect: false	machine.lua:52: expect has neither speedup nor memory
-- expect:   hint: for example expect = { speedup = 1.75, source = ..., on = ... }
-- expect: false	machine.lua:53: rush.rung: expect.on is missing
-- expect:   hint: it must be a string: device and problem, separated by a comma: "A100-80GB, sequence 2048". The report marks a different device
-- expect: 0.0	0
-- expect: 64	2	4	2	16	172	256	true	0	107328
-- expect: false	machine.lua:58: rush.sizes: a model of kind 'operator' is not a decoder
-- expect:   hint: give a model from rush.llama or rush.checkpoint
local rush = require "optrush"

print(rush.device(), rush.gpu())
print(rush.preset { "short", "full" })

local nano = rush.llama "nano"
local long = rush.rung("long", { train = { seq_len = 2048 } })
print(
  rush.max_batch { model = nano, train = { seq_len = 1024 }, memory = 10000 },
  rush.max_batch { model = nano, train = { seq_len = 1024 }, memory = 1000 },
  rush.max_batch { model = nano, train = { seq_len = 1024 }, rungs = { long }, memory = 1e9, most = 4 },
  rush.max_batch { model = nano, plugins = { "lora" }, memory = 1e9 }
)

local exp = rush.experiment { name = "machine", model = nano }
exp:ladder {
  rush.rung("flash", "flash_attention", nil, {
    expect = { speedup = 1.75, memory = 0.7, source = "a paper", on = "A100-80GB, sequence 2048" },
  }),
  rush.rung("beside", "lora", { rank = 4 }, { over = "base" }),
}
print(pcall(exp.ladder, exp, { rush.rung("b", { over = "flsh" }) }))
exp:run()

print(pcall(rush.max_batch, { model = nano }))
print(pcall(rush.max_batch, { model = nano, memroy = 1 }))
print(pcall(rush.preset, {}))
print(pcall(rush.rung, "x", "lora", {}, { expect = { source = "a", on = "b" } }))
print(pcall(rush.rung, "x", "lora", {}, { expect = { speedup = 1, source = "a" } }))
print(rush.cpu().bf16_speedup, rush.cpu().free_bytes)
local s = rush.sizes(nano)
print(s.dim, s.n_layers, s.n_heads, s.n_kv_heads, s.head_dim, s.ffn_dim, s.vocab_size, s.tie_embeddings, s.max_positions,
  s.parameters)
print(pcall(rush.sizes, rush.operator "norm"))
