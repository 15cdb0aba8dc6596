-- Does the top of our ladder beat PyTorch's own on the same machine?
--
-- The stack of the host beside transformers + autocast + SDPA + fused AdamW + torch.compile, with the default malloc
-- and with jemalloc: the same initial values, tokens and threads, in the same rounds. The model is a Llama that fills
-- two CPU cores, or a larger one on a GPU; --set train.micro_batch=1 --set train.seq_len=128 is a smaller form.
--
--   ./optrush run experiments/versus_pytorch.lua --rounds 5
local rush = require "optrush"
local pytorch = require "peers.pytorch"

local gpu = rush.device() == "cuda"

local exp = rush.experiment {
  name = "versus_pytorch",
  question = "Does the top of our ladder beat PyTorch's own?",
  model = rush.llama(gpu and "llama-3.2-1b" or "small"),
  data = gpu and rush.random() or rush.text(rush.corpus "libtorch"),
  train = { micro_batch = 4, seq_len = gpu and 2048 or 512, steps = 10, warmup = 3 },
}

-- PyTorch's own best, beside the rungs above it: eager and every mode that differs on a CPU and on a GPU.
local function add_pytorch(ladder, precision)
  local with = { "sdpa", "fused", precision == "bf16" and "bf16" or nil }
  for _, jemalloc in ipairs { false, true } do
    local malloc = jemalloc and ", jemalloc" or ""
    ladder[#ladder + 1] = pytorch { name = "PyTorch " .. precision .. malloc, with = with, jemalloc = jemalloc }
    for _, mode in ipairs { "default", "max-autotune" } do
      ladder[#ladder + 1] = pytorch {
        name = "torch.compile " .. mode .. " " .. precision .. malloc,
        with = with,
        compile = mode,
        jemalloc = jemalloc,
      }
    end
  end
end

-- Ours, one on top of the other. bf16 comes last: where a CPU is slow at it, the fastest rung is one above.
local ladder = {
  rush.rung("fused AdamW", "fused_adamw"),
  rush.rung("SDPA", "flash_attention"),
}
add_pytorch(ladder, "fp32")
ladder[#ladder + 1] = rush.rung("bf16 autocast", "mixed_precision", { dtype = "bf16" })
add_pytorch(ladder, "bf16")

exp:ladder(ladder)
exp:run():report()
