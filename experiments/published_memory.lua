-- How near are the memory forecasts to figures that others published?
--
-- Each rung describes a run of another program as exactly as possible, with the published figure in its name. Nothing
-- has to be run: the plans contain the forecast of active and of reserved memory.
--
--   ./optrush run experiments/published_memory.lua --dry-run --costs --as-gpu a100-80
--
-- docs/benchmarks/published_memory.md has the table, with the kind of each figure (active or reserved memory), the
-- differences between the programs, and the source.
--
-- plain/published_memory.lua is a form of 15 lines, to copy.
local rush = require "optrush"
local own = require "own_model"

own.none "any other experiment's --dry-run --costs forecasts its memory"

local exp = rush.experiment {
  name = "published_memory",
  question = "How near are memory forecasts to published figures?",
  model = rush.llama "nano",
  train = { micro_batch = 1, seq_len = 64, steps = 4, warmup = 2 },
}

local ladder = {}
local function add(name, published, model, train, plugins)
  local named = ("%s (%s)"):format(name, published)
  ladder[#ladder + 1] = rush.rung(named, { over = "base", model = model, train = train, plugins = plugins })
end

-- The named plugins of a list, and the plugins that are stacked on them.
local function with(list, ...)
  local all = { table.unpack(list) }
  for _, plugin in ipairs { ... } do
    all[#all + 1] = plugin
  end
  return all
end

local adapted = { "q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj" }
local function lora(rank)
  return { "lora", { rank = rank, alpha = 2 * rank, target_modules = adapted } }
end

-- torchtune's README: Llama 3.2 3B, 2 x 4,096 packed tokens, all in bf16, one step down after the other.
local three = rush.llama "llama-3.2-3b"
local packed = { micro_batch = 2, seq_len = 4096, dtype = "bf16" }
local plain = { "flash_attention", "fused_adamw" }
local chunked = with(plain, "fused_linear_cross_entropy")
local recomputed = with(chunked, "activation_checkpointing")
add("torchtune 3B, packed", "60.0 GiB", three, packed, plain)
add("torchtune 3B, packed, compile", "51.0 GiB", three, packed, with(plain, "compile"))
add("torchtune 3B, chunked loss, compile", "42.9 GiB", three, packed, with(chunked, "compile"))
add("torchtune 3B, checkpointing", "24.9 GiB", three, packed, recomputed)
add("torchtune 3B, update in the backward", "23.1 GiB", three, packed, with(recomputed, "optimizer_in_backward"))
add("torchtune 3B, 8-bit AdamW", "17.6 GiB", three, packed, {
  "flash_attention",
  "fused_linear_cross_entropy",
  "activation_checkpointing",
  "optimizer_in_backward",
  "adamw_8bit",
})
add("torchtune 3B, LoRA", "8.5 GiB", three, packed, with(recomputed, lora(64)))
add("torchtune 3B, QLoRA", "4.6 GiB", three, packed, with(recomputed, lora(64), "nf4"))

-- torchtune's README: Llama 3.1 8B, 2 x 2,048 packed tokens, compiled.
local eight = rush.llama "llama-3.1-8b"
local short = { micro_batch = 2, seq_len = 2048, dtype = "bf16" }
add("torchtune 8B, LoRA", "16.2 GiB", eight, short, with(recomputed, lora(8)))
add("torchtune 8B, QLoRA", "7.4 GiB", eight, short, with(recomputed, lora(8), "nf4"))

-- torchao's README: Llama 2 7B by torchtune, 2 x 512 tokens, all in bf16.
local seven = rush.llama {
  vocab_size = 32000,
  dim = 4096,
  n_layers = 32,
  n_heads = 32,
  n_kv_heads = 32,
  ffn_dim = 11008,
  tie_embeddings = false,
}
local alpaca = { micro_batch = 2, seq_len = 512, dtype = "bf16" }
add("torchao 7B, AdamW", "51.6 GB", seven, alpaca, with(plain, "activation_checkpointing"))
add("torchao 7B, 8-bit AdamW", "39.1 GB", seven, alpaca, {
  "flash_attention",
  "activation_checkpointing",
  "adamw_8bit",
})

-- torchtitan's report of December 2024: Llama 3.1 8B on 8 and on 128 GPUs, 2 x 8,192 tokens each.
local sharded = { "flash_attention", "fused_adamw", "fsdp", { "mixed_precision", { dtype = "bf16" } } }
local selective = { "activation_checkpointing", { policy = "selective", keep = { "attention", "linear" } } }
local function on(gpus)
  return { micro_batch = 2, seq_len = 8192, world_size = gpus }
end
add("torchtitan 8B, 8 GPUs", "82.4 GiB", eight, on(8), with(sharded, selective))
add("torchtitan 8B, 8 GPUs, compile", "77.0 GiB", eight, on(8), with(sharded, selective, "compile"))
add("torchtitan 8B, 128 GPUs", "67.0 GiB", eight, on(128), with(sharded, selective))

-- fsdp_qlora's benchmarks of March 2024: Llama 2 7B on 2 GPUs, one sequence each.
local all = { "q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "down_proj" }
local two = { "flash_attention", "fused_adamw", "activation_checkpointing", "fsdp" }
local wide = { "lora", { rank = 64, alpha = 16, target_modules = all } }
local function of(length)
  return { micro_batch = 1, seq_len = length, dtype = "bf16", world_size = 2 }
end
add("fsdp_qlora 7B, 512 tokens, LoRA", "10.24 GiB", seven, of(512), with(two, wide))
add("fsdp_qlora 7B, 512 tokens, QLoRA", "4.98 GiB", seven, of(512), with(two, wide, "nf4"))
add("fsdp_qlora 7B, 2,048 tokens, QLoRA", "5.21 GiB", seven, of(2048), with(two, wide, "nf4"))

-- The same report: Llama 2 70B on two cards of 24 GB, two sequences each, shards in host memory.
local seventy = rush.llama {
  vocab_size = 32000,
  dim = 8192,
  n_layers = 80,
  n_heads = 64,
  n_kv_heads = 8,
  ffn_dim = 28672,
  tie_embeddings = false,
}
local offloaded = { "flash_attention", "fused_adamw", "activation_checkpointing", { "fsdp", { offload = true } } }
local pairs_of = { micro_batch = 2, seq_len = 2048, dtype = "bf16", world_size = 2 }
add("fsdp_qlora 70B, shards on the host", "14.92 GiB", seventy, pairs_of, with(offloaded, wide, "nf4"))

exp:ladder(ladder)
exp:run({ rounds = 1 }):report()
