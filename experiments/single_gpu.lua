-- Which optimizations pay for Llama 3.2 1B on one GPU, in which order?
--
-- From a plain fp32 step up, one optimization on top of the other, with PyTorch's own best beside them in the same
-- rounds. On a GPU with 79 GB or more, sequences have 4,096 tokens, on a smaller one 2,048. The micro-batch is the
-- largest that fits by the plans. It is chosen again when less memory is needed. Below 100 GB the bf16 rung has fused
-- attention, without which a sequence of 4,096 takes 78 GiB. The smallest card has 44 GB: one sequence of 2,048 takes
-- 38 GB there by its plan. On a CPU a small model goes up the same ladder. Tokens are bytes of real text, so only 256
-- of the 128,256 entries of the vocabulary occur; the work of a step does not depend on it, but the loss does.
--
--   ./optrush run experiments/single_gpu.lua                   one round of the most informative rungs
--   ./optrush run experiments/single_gpu.lua --preset full     three rounds of every rung
--   ./optrush run experiments/single_gpu.lua --arg checkpoint=FOLDER --arg precision=bf16
--   ./optrush run experiments/single_gpu.lua --dry-run --as-gpu 80
--
-- plain/single_gpu.lua is a form of 15 lines, to copy.
local rush = require "optrush"
local own = require "own_model"
local precision = require "chosen_precision"
local pytorch = require "peers.pytorch"

local full = rush.preset { "short", "full" } == "full"
local gpu = rush.gpu()
local on_gpu = rush.device() == "cuda"
local memory = gpu and gpu.memory_bytes or 80e9

local SMALLEST = 44e9
if gpu and memory < SMALLEST and not own.given then
  error(("%s has %.0f GiB, and Llama 3.2 1B takes %.0f GiB from fp32 on; --device cpu runs the small form"):format(
    gpu.name, memory / 2 ^ 30, SMALLEST / 2 ^ 30), 0)
end

local LONG, ROOMY = 79e9, 100e9 -- for 4,096 tokens; for them without fused attention
local length = not on_gpu and 256 or memory >= LONG and 4096 or 2048
local model = own.model(on_gpu and rush.llama "llama-3.2-1b" or rush.llama("tiny", { vocab_size = 8192 }))
local train = own.train(model, {
  micro_batch = 1,
  seq_len = length,
  warmup = full and 5 or 3,
  steps = full and 15 or 6,
  lr = 3e-4,
})
length = train.seq_len
local of = on_gpu and "Llama 3.2 1B on one GPU" or "a small Llama on this CPU"
local exp = rush.experiment {
  name = "single_gpu",
  question = ("Which optimizations pay for %s, in which order? In %s."):format(own.given and "this checkpoint" or of,
    precision.why),
  model = model,
  data = rush.text(rush.corpus "libtorch"),
  train = train,
  timeout = 1800,
}

-- Measured on one A100-80GB, each relative to the step before it.
local function published(speedup, of_memory)
  return {
    speedup = speedup,
    memory = of_memory,
    source = "figures given to this project, without a public source",
    on = "A100-80GB, sequence 2048",
  }
end

local ladder = {}
local function add(rung)
  ladder[#ladder + 1] = rung
end

-- The two fused kernels of a GPU; the faster one stays.
local hopper = not gpu or tonumber(gpu.sm:match "%d+") >= 90
local kernels = hopper and { "flash", "cudnn" } or { "cudnn", "flash" }
local expect_of_flash = published(1.75, 0.7)
local bf16 = precision.name == "bf16"
local together = bf16 and on_gpu and length == 4096 and memory < ROOMY
local autocast = { "mixed_precision", { dtype = "bf16" } }
if together then
  local plugins = { autocast, { "flash_attention", { kernel = kernels[1] } } }
  add(rush.rung("bf16 autocast, attention " .. kernels[1], { plugins = plugins, expect = published(3.5 * 1.75) }))
elseif bf16 then
  add(rush.rung("bf16 autocast", { plugins = { autocast }, expect = published(3.5) }))
end
add(rush.rung("fused AdamW", "fused_adamw", {}, { expect = published(1.1) }))
if not on_gpu then
  add(rush.rung("FlashAttention", "flash_attention", {}, { expect = expect_of_flash }))
else
  local function attention(kernel, settings)
    add(rush.rung("attention " .. kernel, "flash_attention", { kernel = kernel }, settings))
  end
  if not together then attention(kernels[1], { expect = expect_of_flash }) end
  attention(kernels[2], { replace = "flash_attention" })
end

-- The micro-batch that fits at this rung. If no plan predicts it: 22 GB and, for 4,096 tokens, 16 GB more, as
-- estimated.
local function largest_batch()
  if not on_gpu then return own.given and own.train(model, { micro_batch = 8, seq_len = length }).micro_batch or 8 end
  local limit = 0.9 * memory
  local planned = rush.max_batch { model = model, train = train, rungs = ladder, memory = limit, most = 16 }
  if planned then return planned end
  if own.given then return 1 end
  local by_hand = (limit - 22e9) / (16e9 * length / 4096)
  return by_hand < 1 and 1 or 1 << math.floor(math.log(by_hand, 2))
end
local batch = largest_batch()
local sizes = { batch }
while full and sizes[1] > 2 do
  table.insert(sizes, 1, sizes[1] // 2)
end
for _, size in ipairs(sizes) do
  if size > 1 then add(rush.rung("micro-batch " .. size, { train = { micro_batch = size } })) end
end

add(rush.rung("fused kernels", "fused_kernels"))
add(rush.rung("fused loss", "fused_linear_cross_entropy"))
local eager = bf16 and "bf16 weights" or "fused loss"
if bf16 then add(rush.rung(eager, "bf16_weights", {}, { replace = { "mixed_precision", "fused_adamw" } })) end
local larger = on_gpu and largest_batch() or batch
add(rush.rung("compile", "compile", {}, { expect = published(1.2, 0.9) }))
if full then
  local autotuned = { mode = "max-autotune-no-cudagraphs" }
  add(rush.rung("compile, max-autotune", "compile", autotuned, { replace = "compile" }))
end

-- PyTorch: transformers, SDPA, fused AdamW, autocast.
local with = precision.with { "sdpa", "fused" }
add(pytorch { name = "PyTorch", with = with })
add(pytorch { name = "PyTorch, torch.compile", with = with, compile = "default", form = "blocks" })
if full then
  add(pytorch { name = "PyTorch, max-autotune", with = with, compile = "max-autotune", form = "blocks" })
  if on_gpu then add(pytorch { name = "PyTorch, Liger", with = { "liger", table.unpack(with) } }) end
end

-- More tokens for the same traffic of the optimizer.
local compiled = "compile"
if larger > batch then
  local function with_more(below)
    local name = ("%s, micro-batch %d"):format(below, larger)
    add(rush.rung(name, { over = below, train = { micro_batch = larger } }))
    return name
  end
  eager = with_more(eager)
  compiled = with_more(compiled)
end

if bf16 then add(rush.rung("float8", "float8", { recipe = "tensorwise" }, { over = compiled })) end
if bf16 and full then add(rush.rung("float8, row-wise", "float8", { recipe = "rowwise" }, { replace = "float8" })) end

-- Less memory for more time, over the last rung without a compiler, where recomputation gives the same bits.
local function checkpointing(name, options, settings)
  add(rush.rung(name, "activation_checkpointing", options, settings))
end
checkpointing("full checkpointing", { policy = "full" }, { over = eager, expect = published(0.6) })
if full then
  local instead = { replace = "activation_checkpointing" }
  checkpointing("selective checkpointing", { policy = "selective" }, instead)
  checkpointing("checkpointing by budget", { policy = "budget", budget = 0.5 }, instead)
end

-- Eight times the sequence, in a number that does not fit if every block keeps its activations: an estimate, half of
-- the memory of a sequence above.
local long = 8 * length
local most_positions = own.given and own.sizes().max_positions or 0
local long_batch = 1
while on_gpu and not own.given and 20e9 + long_batch * 8e9 * long / 4096 < 1.25 * memory do
  long_batch = 2 * long_batch
end
local long_train = { seq_len = long, micro_batch = long_batch, warmup = 1, steps = full and 4 or 2 }
if most_positions == 0 or long <= most_positions then
  add(rush.rung("sequence " .. long, { over = eager, train = long_train }))
  checkpointing(("sequence %d, full checkpointing"):format(long), { policy = "full" })
end

exp:ladder(ladder)
exp:run({ rounds = full and 3 or 1 }):report()
