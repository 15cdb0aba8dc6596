-- How little memory does training take, and what does each step down cost?
--
-- From a plain fp32 step to a QLoRA: logits in chunks, moments in 8 bits, each parameter updated in the backward,
-- products in bf16, recomputed activations, then adapters beside frozen matrices, and those in 4 bits. The saved memory
-- is used twice, for a micro-batch of 8: on the rung that trains every parameter in least memory, and on the last one.
-- The published figures are from torchtune's README, for its own steps of this kind. It trains bf16 weights on packed
-- documents.
--
--   ./optrush run experiments/memory.lua                            Llama 3.2 1B on a GPU, a small Llama on a CPU
--   ./optrush run experiments/memory.lua --arg model=llama-3.2-1b   the 1B on a CPU, with 23 GiB and half an hour
--   ./optrush run experiments/memory.lua --arg checkpoint=FOLDER    a model of your own
local rush = require "optrush"
local own = require "own_model"

local gpu = rush.device() == "cuda"
local name = rush.arg("model", gpu and "llama-3.2-1b" or "small")
local model = own.model(rush.llama(name))
local plugins = { "flash_attention", "fused_adamw" }
local train = { micro_batch = 1, seq_len = gpu and 2048 or 256, steps = 4, warmup = 2, lr = 3e-4 }

local exp = rush.experiment {
  name = "memory",
  question = ("How little memory does training %s take, and what does each step down cost?"):format(
    own.given and "this checkpoint" or name),
  model = model,
  data = rush.text(rush.corpus "libtorch"),
  train = own.train(model, train, plugins),
  plugins = plugins,
  timeout = 1800,
}

local function published(speedup, of_memory)
  return {
    speedup = speedup,
    memory = of_memory,
    source = "torchtune's README",
    on = "A100-80GB, Llama 3.2 3B, sequence 4096",
  }
end

local matrices = { "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj" }
local batch = { train = { micro_batch = 8 } }
exp:ladder {
  rush.rung("fused loss", "fused_linear_cross_entropy", {}, { expect = published(1.02, 0.84) }),
  rush.rung("8-bit AdamW", "adamw_8bit", {}, { replace = "fused_adamw", expect = published(0.95, 0.81) }),
  rush.rung("update in the backward", "optimizer_in_backward", {}, { expect = published(1.01, 0.93) }),
  rush.rung("bf16 autocast", "mixed_precision", { dtype = "bf16" }),
  rush.rung("checkpointing", "activation_checkpointing", {}, { expect = published(0.79, 0.58) }),
  rush.rung("micro-batch 8", batch),
  rush.rung("LoRA", "lora", { rank = 16, alpha = 32, target_modules = matrices }, {
    over = "checkpointing",
    without = "optimizer_in_backward",
    expect = published(1.18, 0.48),
  }),
  rush.rung("NF4 weights", "nf4", {}, { expect = published(0.98, 0.54) }),
  rush.rung("NF4 weights, micro-batch 8", batch),
}

exp:run({ rounds = 2 }):report()
