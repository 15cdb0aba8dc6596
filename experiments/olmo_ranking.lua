-- Which optimizations does a training of OLMo 1.2B need most, and does the published ranking hold?
--
-- OLMo's architecture: LayerNorm without parameters, tied embeddings, GPT-2's vocabulary of 50257 entries. Each
-- optimization is left out of the full stack, and tried alone on the base, which has bf16 autocast and the fused AdamW
-- as the published training has. The published gains stand beside the rungs alone. They also name FSDP's pure low
-- precision, limited gathers and non-reentrant checkpointing with 1 to 2 % together: --arg ranks=N adds the first two
-- as one rung; checkpointing here is non-reentrant. Norms in low precision were 10 % faster without compilation and
-- slower with it: compare "without low-precision norm" of the presets. Fused attention has no biases of ALiBi.
--
--   ./optrush run experiments/olmo_ranking.lua                       on a CPU: a small model of this architecture
--   ./optrush run experiments/olmo_ranking.lua --preset compile      with torch's compiler, in two modes and in parts
--   ./optrush run experiments/olmo_ranking.lua --arg ranks=8         sharded over 8 ranks
--   ./optrush run experiments/olmo_ranking.lua --dry-run --as-gpu 80
local rush = require "optrush"
local own = require "own_model"

local compile = rush.preset { "eager", "compile" } == "compile"
local ranks = rush.arg("ranks", 1)
local gpu = rush.device() == "cuda"

-- An odd vocabulary in either form; the small one is padded from 8185 to 8192.
local small = { norm = "layernorm_without_parameters", norm_eps = 1e-5, tie_embeddings = true, vocab_size = 8185 }
local model = own.model(gpu and rush.llama("olmo-1b", { vocab_size = 50257 }) or rush.llama("tiny", small))
local plugins = { { "mixed_precision", { dtype = "bf16" } }, "fused_adamw" }
if ranks > 1 then plugins[#plugins + 1] = { "fsdp", { limit = 64 } } end

local exp = rush.experiment {
  name = "olmo_ranking",
  question = ("Which optimizations does a training of %s need most, and does the published ranking hold?"):format(
    own.given and "this checkpoint" or gpu and "OLMo 1.2B" or "a small OLMo"),
  model = model,
  data = rush.text(rush.corpus "libtorch"),
  plugins = plugins,
  train = own.train(model, {
    world_size = ranks,
    micro_batch = 2,
    seq_len = gpu and 2048 or 256,
    steps = 8,
    warmup = 3,
    lr = 3e-4,
  }, plugins),
  timeout = 1800,
}

local function published(speedup)
  return { speedup = speedup, source = "the published ranking of OLMo 1.2B", on = "the GPUs of OLMo, 1.2B" }
end

local parts = {
  rush.rung("FlashAttention", "flash_attention", {}, { expect = published(1.12) }),
  rush.rung("low-precision norm", "low_precision_norm", {}, { expect = published(1.10) }),
}
local padded = rush.rung("padded vocabulary", "vocab_padding", { multiple = 64 }, { expect = published(1.11) })
-- The vocabulary of a checkpoint may need no padding.
if rush.sizes(model).vocab_size % 64 ~= 0 then table.insert(parts, 2, padded) end
if ranks > 1 then
  local low = { parameter_type = "bf16", reduce_type = "bf16", limit = 2 }
  parts[#parts + 1] = rush.rung("FSDP in bf16, limited gathers", "fsdp", low, {
    replace = "fsdp",
    expect = published(1.015),
  })
end
if compile then parts[#parts + 1] = rush.rung("compile", "compile", {}, { expect = published(1.07) }) end

exp:ablation(parts)
local alibi = rush.rung("ALiBi alone", { model = { position = "alibi" }, over = "base" })
if not own.given then exp:ladder { alibi } end
if compile then
  -- Beside "compile alone": the compiler's other mode, and blocks in two parts, as graph breaks cut them.
  exp:ladder {
    rush.rung("max-autotune alone", "compile", { mode = "max-autotune-no-cudagraphs" }, { over = "base" }),
    rush.rung("graph breaks alone", "compile", { units = { "attention", "mlp", "head" } }, { over = "base" }),
  }
end
exp:run({ within = 0.03, at_most = gpu and "20m" or "10m" }):report()
