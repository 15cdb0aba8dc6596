-- How fast does Llama 3.2 1B train at 4,096 tokens on one GPU, and what does each change on the way there bring?
--
-- Six rungs for any card from 79 GB on. The base is a usual fast step: bf16 autocast, fused AdamW, FlashAttention and
-- four sequences. Rungs that save memory come before the larger batch for which they make room. The full form adds the
-- compiler, CUDA graphs, float8 and PyTorch's own best. On a CPU a small model goes up the same ladder.
--
--   ./optrush run experiments/flagship.lua                    one round of six rungs, about three minutes
--   ./optrush run experiments/flagship.lua --preset full      three rounds of everything
--   ./optrush run experiments/flagship.lua --arg checkpoint=FOLDER
--   ./optrush run experiments/flagship.lua --dry-run --costs --as-gpu h100
--
-- plain/flagship.lua is a form of 15 lines, to copy.
local rush = require "optrush"
local own = require "own_model"
local pytorch = require "peers.pytorch"

local full = rush.preset { "eager", "full" } == "full"
local gpu = rush.gpu()
local on_gpu = rush.device() == "cuda"

local SMALLEST, LARGE = 79e9, 100e9
if gpu and gpu.memory_bytes < SMALLEST and not own.given then
  local needs = "%s has %.0f GiB, and four sequences of 4,096 tokens need a card of %.0f GiB; "
  local instead = "experiments/single_gpu.lua fits smaller cards, and --device cpu runs the small form"
  error(needs:format(gpu.name, gpu.memory_bytes / 2 ^ 30, SMALLEST / 2 ^ 30) .. instead, 0)
end
local large = on_gpu and (not gpu or gpu.memory_bytes >= LARGE)

-- The fused attention kernels of a GPU; the faster one comes second and stays in the stack.
local hopper = not gpu or tonumber(gpu.sm:match "%d+") >= 90
local kernels = hopper and { "flash", "cudnn" } or { "cudnn", "flash" }
local attention = on_gpu and { "flash_attention", { kernel = kernels[1] } } or "flash_attention"
local plugins = { { "mixed_precision", { dtype = "bf16" } }, "fused_adamw", attention }

local model = own.model(on_gpu and rush.llama "llama-3.2-1b" or rush.llama("tiny", { vocab_size = 8192 }))
local steps = on_gpu and 15 or 10
local settings = { micro_batch = 4, seq_len = on_gpu and 4096 or 256, warmup = 3, steps = steps, lr = 3e-4 }
local train = own.train(model, settings, plugins)

local of = on_gpu and "Llama 3.2 1B train on one GPU" or "a small Llama train on this CPU"
local exp = rush.experiment {
  name = "flagship",
  question = ("How fast does %s, and what does each change bring?"):format(own.given and "this checkpoint train" or of),
  model = model,
  data = rush.text(rush.corpus "libtorch"),
  train = train,
  plugins = plugins,
  timeout = 900,
}

local ladder = {}
local function add(rung)
  ladder[#ladder + 1] = rung
end

if on_gpu then
  local kernel = kernels[2]
  add(rush.rung("attention " .. kernel, "flash_attention", { kernel = kernel }, { replace = "flash_attention" }))
end
add(rush.rung("fused kernels", "fused_kernels"))
add(rush.rung("fused loss", "fused_linear_cross_entropy"))
add(rush.rung("bf16 weights", "bf16_weights", {}, { replace = { "mixed_precision", "fused_adamw" } }))
local batch = 2 * train.micro_batch
add(rush.rung("micro-batch " .. batch, { train = { micro_batch = batch } }))

if full then
  add(rush.rung("fused projections", "fused_projections"))
  if on_gpu then
    add(rush.rung("cuBLASLt products", "cublaslt_matmul"))
    local beside = { over = "fused projections" }
    add(rush.rung("updates on a second stream", "optimizer_in_backward", { stream = "side" }, beside))
  end
  add(rush.rung("compile", "compile", {}, { over = "micro-batch " .. batch }))
  if on_gpu then add(rush.rung("compile, CUDA graphs", "cuda_graphs")) end
  if large then
    local size = 4 * train.micro_batch
    add(rush.rung("micro-batch " .. size, { over = "compile", train = { micro_batch = size } }))
  end
  local autotuned = { mode = "max-autotune-no-cudagraphs" }
  add(rush.rung("compile, max-autotune", "compile", autotuned, { over = "compile", replace = "compile" }))
  add(rush.rung("float8", "float8", { recipe = "tensorwise" }, { over = "compile" }))
  if on_gpu then -- without a compiler: norms and SwiGLU find the largest values that the scales need
    add(rush.rung("float8 by kernels", {
      over = "micro-batch " .. batch,
      replace = "fused_kernels",
      plugins = { { "fused_kernels", { largest_values = true } }, "float8" },
    }))
  end

  -- PyTorch in the forms that its users choose. Logits in fp32 leave a card of 80 GB no room for more sequences than
  -- the base has. On a larger card, two forms also have our micro-batch.
  local function peer(name, options, ...)
    options.name = name
    options.with = { "bf16_weights", "sdpa", ... }
    options.train = options.train or { micro_batch = train.micro_batch }
    add(pytorch(options))
  end
  peer("PyTorch", {})
  peer("torch.compile", { compile = "default" })
  peer("torch.compile by blocks", { compile = "default", form = "blocks" })
  peer("torch.compile, transformers as it is", { compile = "default", form = "shipped" })
  if on_gpu then
    peer("torch.compile by blocks, max-autotune", { compile = "max-autotune", form = "blocks" })
    peer("Liger", {}, "liger")
    peer("torchao float8", { compile = "default", form = "blocks" }, "float8")
    if large then
      local more = { micro_batch = batch }
      peer("torch.compile by blocks, micro-batch " .. batch, { compile = "default", form = "blocks", train = more })
      peer("Liger, micro-batch " .. batch, { train = more }, "liger")
    end
  end
end

exp:ladder(ladder)
exp:run({ rounds = full and 3 or 1 }):report()
