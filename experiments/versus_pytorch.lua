-- Does the top of our ladder beat PyTorch's own on the same machine?
--
-- The stack of the host beside transformers + SDPA + fused AdamW, in the forms that PyTorch users choose: eager,
-- torch.compile over the model, torch.compile by blocks, and on a GPU Liger Kernel. The same initial values, tokens and
-- threads, in the same rounds. torch.compile of transformers as it is attends with a dense mask; that row is there
-- because users have it, and no headline names it. Both sides run bf16 autocast, and bf16 weights with fp32 masters, on
-- a GPU and on a CPU with faster matmuls in bf16, otherwise fp32; --arg precision sets it. Attention is what LibTorch
-- chooses on both sides; each row notes the kernel. On a CPU the model is a Llama that fills two cores; on a GPU it has
-- the blocks of Llama 3.2 1B, four of them in the short form and all sixteen in the full one, and the base is in bf16
-- with fused attention, without which the full form takes 92 GiB.
--
--   ./optrush setup peers                                         installs transformers, Liger, torchao, jemalloc, once
--   ./optrush run experiments/versus_pytorch.lua                  four rounds of the whole stacks
--   ./optrush run experiments/versus_pytorch.lua --preset full    six, every rung, every mode of torch.compile
--   ./optrush run experiments/versus_pytorch.lua --arg checkpoint=FOLDER --arg precision=bf16
--
-- On a CPU, compile and PyTorch run alone in the first round. From the second round on their memory is known, and all
-- rows are interleaved step by step. Three such rounds make a claim.
--
-- plain/versus_pytorch.lua is a form of 15 lines, to copy.
local rush = require "optrush"
local own = require "own_model"
local precision = require "chosen_precision"
local pytorch = require "peers.pytorch"

local full = rush.preset { "short", "full" } == "full"
local gpu = rush.device() == "cuda"
local model = own.model(gpu and rush.llama("llama-3.2-1b", { n_layers = full and 16 or 4 }) or rush.llama "small")
local train = { micro_batch = 4, seq_len = gpu and 2048 or 512, steps = (gpu or full) and 10 or 6, warmup = 3 }

local exp = rush.experiment {
  name = "versus_pytorch",
  question = "Does the top of our ladder beat PyTorch's own? In " .. precision.why .. ".",
  model = model,
  data = rush.text(rush.corpus "libtorch"),
  train = own.train(model, train),
  plugins = gpu and precision.plugins { "flash_attention" } or {},
}

-- Ours. The full form has one rung for each technique, the short one only the whole stack.
local ladder, stack = {}, {}
local function add(name, plugin, options, settings)
  if full or settings then
    ladder[#ladder + 1] = rush.rung(name, plugin, options or {}, settings)
  else
    stack[#stack + 1] = { plugin, options }
  end
end
if full and not gpu then ladder = precision.rungs "bf16 autocast" end
if not (full or gpu) then stack = precision.plugins {} end
add("fused AdamW", "fused_adamw")
if not gpu then
  add("FlashAttention", "flash_attention")
  add("caching allocator", "cpu_allocator")
end
add("fused kernels", "fused_kernels")
add("fused loss", "fused_linear_cross_entropy")
if not gpu and precision.name == "fp32" and rush.cpu().name:find "AMD" and rush.cpu().bf16_speedup > 0 then
  add("oneDNN products", "onednn_matmul") -- AMD's processors with AVX-512 have instructions for bf16
end
if not full then ladder[1] = rush.rung("our stack", { plugins = stack }) end
if precision.name == "bf16" then
  add("bf16 weights", "bf16_weights", {}, { replace = { "mixed_precision", "fused_adamw" } })
end
-- The compiler fuses operators itself, from their plain form. On a CPU the attention and the MLP are units, so that
-- those that are faster as they are stay so.
add("compile", "compile", gpu and {} or { units = { "auto", "attention", "mlp" } }, {})
if gpu then -- torch.compile's reduce-overhead and max-autotune record CUDA graphs
  if full then add("max-autotune", "compile", { mode = "max-autotune-no-cudagraphs" }, { replace = "compile" }) end
  add("CUDA graphs", "cuda_graphs", {}, {})
end

-- PyTorch's forms. On a CPU they have jemalloc, with which they are faster.
local eager = "PyTorch, eager"
local function peer(name, with, options)
  local rung = { name = name, with = with, jemalloc = not gpu }
  for key, value in pairs(options or {}) do
    rung[key] = value
  end
  ladder[#ladder + 1] = pytorch(rung)
end
local function peers(with, suffix)
  peer(eager .. suffix, with)
  peer("torch.compile" .. suffix, with, { compile = "default" })
  peer("torch.compile by blocks" .. suffix, with, { compile = "default", form = "blocks" })
  if gpu then
    local liger = { "liger", table.unpack(with) }
    peer("Liger" .. suffix, liger)
  end
end
local plain, weights = precision.with { "sdpa", "fused" }, { "sdpa", "fused", "bf16_weights" }
local with = precision.name == "bf16" and weights or plain
if full and with == weights then
  peers(plain, "")
  peers(weights, ", bf16 weights")
else
  peers(with, "")
end
peer("torch.compile, transformers as it is", with, { compile = "default", form = "shipped" })
if full then
  for _, mode in ipairs(gpu and { "reduce-overhead", "max-autotune" } or { "max-autotune" }) do
    peer("torch.compile by blocks, " .. mode, with, { compile = mode, form = "blocks" })
  end
  if not gpu then
    peer(eager .. ", default malloc", with, { jemalloc = false })
  end
end

exp:ladder(ladder)
exp:run({ rounds = full and 6 or 4 }):report()
