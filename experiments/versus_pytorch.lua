-- Does the top of our ladder beat PyTorch's own on the same machine?
--
-- The stack of the host beside transformers + SDPA + fused AdamW + torch.compile, with the default malloc and with
-- jemalloc: the same initial values, tokens and threads, in the same rounds. Both sides run bf16 autocast on a GPU
-- and on a CPU whose matmuls are faster in bf16, else fp32; --arg precision decides. On a CPU the model is a Llama that
-- fills two cores; on a GPU it has the blocks of Llama 3.2 1B, four of them in the short form and all sixteen in the
-- full one.
--
--   ./optrush setup peers                                         installs transformers and jemalloc, once
--   ./optrush run experiments/versus_pytorch.lua                  four rounds
--   ./optrush run experiments/versus_pytorch.lua --preset full    six, every mode of torch.compile, the whole model
--   ./optrush run experiments/versus_pytorch.lua --arg checkpoint=FOLDER --arg precision=bf16
--
-- In the first round compile and PyTorch run by themselves; from the second on their memory is known, and all rows are
-- interleaved step by step. Three such rounds make a claim.
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
}

-- Ours, one on top of the other. The compiler fuses operators by itself, from their plain form.
local ladder = precision.rungs "bf16 autocast"
ladder[#ladder + 1] = rush.rung("fused AdamW", "fused_adamw")
ladder[#ladder + 1] = rush.rung("SDPA", "flash_attention")
if not gpu then ladder[#ladder + 1] = rush.rung("caching allocator", "cpu_allocator") end
ladder[#ladder + 1] = rush.rung("fused kernels", "fused_kernels")
ladder[#ladder + 1] = rush.rung("fused loss", "fused_linear_cross_entropy")
ladder[#ladder + 1] = rush.rung("compile", "compile")
if gpu then -- torch.compile's reduce-overhead and max-autotune record CUDA graphs
  local autotuned = { mode = "max-autotune-no-cudagraphs" }
  if full then ladder[#ladder + 1] = rush.rung("max-autotune", "compile", autotuned, { replace = "compile" }) end
  ladder[#ladder + 1] = rush.rung("CUDA graphs", "cuda_graphs")
end

-- PyTorch's own best: eager, and the modes of torch.compile that differ on this kind of device.
local with = precision.with { "sdpa", "fused" }
for _, jemalloc in ipairs(gpu and { false } or { false, true }) do
  local malloc = jemalloc and ", jemalloc" or ""
  ladder[#ladder + 1] = pytorch { name = "PyTorch " .. precision.name .. malloc, with = with, jemalloc = jemalloc }
  for _, mode in ipairs(gpu and not full and { "default", "reduce-overhead" } or { "default", "max-autotune" }) do
    ladder[#ladder + 1] = pytorch {
      name = "torch.compile " .. mode .. malloc,
      with = with,
      compile = mode,
      jemalloc = jemalloc,
    }
  end
end

exp:ladder(ladder)
exp:run({ rounds = full and 6 or 4 }):report()
