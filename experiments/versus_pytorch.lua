-- Does the top of our ladder beat PyTorch's own on the same machine?
--
-- The stack of the host beside transformers + SDPA + fused AdamW + torch.compile, with the default malloc and with
-- jemalloc: the same initial values, tokens and threads, in the same rounds. Both sides run bf16 autocast, and bf16
-- weights with fp32 masters, on a GPU and on a CPU with faster matmuls in bf16, otherwise fp32; --arg precision sets
-- it. Attention is what LibTorch chooses on both sides: cuDNN's kernel on sm_90. On a CPU the model is a Llama that
-- fills two cores; on a GPU it has the blocks of Llama 3.2 1B, four of them in the short form and all sixteen in the
-- full one, and the base is in bf16 with fused attention, without which the full form takes 92 GiB.
--
--   ./optrush setup peers                                         installs transformers and jemalloc, once
--   ./optrush run experiments/versus_pytorch.lua                  four rounds
--   ./optrush run experiments/versus_pytorch.lua --preset full    six, every mode of torch.compile, the whole model
--   ./optrush run experiments/versus_pytorch.lua --arg checkpoint=FOLDER --arg precision=bf16
--
-- On a CPU, compile and PyTorch run alone in the first round. From the second round on their memory is known, and all
-- rows are interleaved step by step. Three such rounds make a claim.
local rush = require "optrush"
local own = require "own_model"
local precision = require "chosen_precision"
local pytorch = require "peers.pytorch"

local full = rush.preset { "short", "full" } == "full"
local gpu = rush.device() == "cuda"
local model = own.model(gpu and rush.llama("llama-3.2-1b", { n_layers = full and 16 or 4 }) or rush.llama "small")
local train = { micro_batch = 4, seq_len = gpu and 2048 or 512, steps = 10, warmup = 3 }

local exp = rush.experiment {
  name = "versus_pytorch",
  question = "Does the top of our ladder beat PyTorch's own? In " .. precision.why .. ".",
  model = model,
  data = rush.text(rush.corpus "libtorch"),
  train = own.train(model, train),
  plugins = gpu and precision.plugins { "flash_attention" } or {},
}

-- Ours, one on top of the other. The compiler fuses operators itself, from their plain form.
local ladder = gpu and {} or precision.rungs "bf16 autocast"
ladder[#ladder + 1] = rush.rung("fused AdamW", "fused_adamw")
if not gpu then ladder[#ladder + 1] = rush.rung("SDPA", "flash_attention") end
if not gpu then ladder[#ladder + 1] = rush.rung("caching allocator", "cpu_allocator") end
ladder[#ladder + 1] = rush.rung("fused kernels", "fused_kernels")
ladder[#ladder + 1] = rush.rung("fused loss", "fused_linear_cross_entropy")
if not gpu and precision.name == "fp32" and rush.cpu().name:find "AMD" then
  ladder[#ladder + 1] = rush.rung("oneDNN products", "onednn_matmul")
end
if precision.name == "bf16" then
  local replaced = { replace = { "mixed_precision", "fused_adamw" } }
  ladder[#ladder + 1] = rush.rung("bf16 weights", "bf16_weights", {}, replaced)
end
-- On a CPU the attention and the MLP are units, so that those that are faster as they are stay so.
ladder[#ladder + 1] = rush.rung("compile", "compile", gpu and {} or { units = { "auto", "attention", "mlp" } })
if gpu then -- torch.compile's reduce-overhead and max-autotune record CUDA graphs
  local autotuned = { mode = "max-autotune-no-cudagraphs" }
  if full then ladder[#ladder + 1] = rush.rung("max-autotune", "compile", autotuned, { replace = "compile" }) end
  ladder[#ladder + 1] = rush.rung("CUDA graphs", "cuda_graphs")
end

-- PyTorch's own best: eager, and the modes of torch.compile that differ on this kind of device.
local modes = gpu and not full and { "default", "reduce-overhead" } or { "default", "max-autotune" }
local function peers(of, with, jemalloc)
  local malloc = jemalloc and ", jemalloc" or ""
  ladder[#ladder + 1] = pytorch { name = "PyTorch " .. of .. malloc, with = with, jemalloc = jemalloc }
  local on = of == precision.name and "" or ", " .. of
  for _, mode in ipairs(modes) do
    local name = "torch.compile " .. mode .. on .. malloc
    ladder[#ladder + 1] = pytorch { name = name, with = with, compile = mode, jemalloc = jemalloc }
  end
end
for _, jemalloc in ipairs(gpu and { false } or { false, true }) do
  peers(precision.name, precision.with { "sdpa", "fused" }, jemalloc)
  if precision.name == "bf16" then peers("bf16 weights", { "sdpa", "fused", "bf16_weights" }, jemalloc) end
end

exp:ladder(ladder)
exp:run({ rounds = full and 6 or 4 }):report()
