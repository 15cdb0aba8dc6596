-- PyTorch itself as an external rung: transformers' Llama from the same initial values, on the same tokens.
--
--   local pytorch = require "peers.pytorch"
--   pytorch { name = "torch.compile", with = { "bf16", "sdpa", "fused" }, compile = "default", jemalloc = true }
--   pytorch { name = "FSDP2", by = "fsdp", with = { "sdpa", "fused" } }
--
--   with      any of "bf16" (autocast), "sdpa", "fused" (AdamW), and on one rank "muon" and "bf16_weights" (weights in
--             bf16, which AdamW updates from masters in fp32); none: as the naive base
--   by        of several ranks: "ddp" (DistributedDataParallel), "fsdp" (fully_shard), "tp" (parallelize_module), "pp"
--             (PipelineStage), "cp" (context_parallel, on GPUs) or "ep" (experts over ranks and fully_shard, by
--             transformers 5.22 or newer), over the backend of ours, with the ranks and the batch of the rung below;
--             tp and pp need tie_embeddings = false
--   keep      fsdp: parameters stay whole from forward to backward
--   schedule  pp: "GPipe" or "1F1B"
--   compile   of one rank: a mode of torch.compile; nil: eager
--   jemalloc  preloads jemalloc, keeping freed memory
--   train     settings that differ from those of the rung below, such as micro_batch
--
-- It needs what requirements.txt and packages.txt beside it list; ./optrush setup peers installs both.
local rush = require "optrush"

return function(options)
  local command = { "{python}" }
  local function add(...)
    for _, word in ipairs { ... } do
      command[#command + 1] = word
    end
  end
  if options.by then
    add("peers/distributed_twin.py", "--by", options.by, "--ranks", "{world_size}")
    if options.keep then add "--keep" end
    if options.schedule then add("--schedule", options.schedule) end
  else
    add "peers/transformers_twin.py"
    if options.compile then add("--compile", options.compile) end
  end
  add("--start", "{start}", "--spec", "{spec}", "--out", "{out}", "--metrics", "{metrics}", "--with")
  local reduced = false
  for _, technique in ipairs(options.with or {}) do
    add(technique)
    -- Muon iterates in bf16.
    reduced = reduced or technique == "bf16" or technique == "bf16_weights" or technique == "muon"
  end
  return rush.external {
    name = options.name,
    command = command,
    files = { "peers/transformers_twin.py", "peers/interleaving.py", "peers/gpu_use.py" },
    interleave = true,
    requirements = "peers/requirements.txt",
    packages = "peers/packages.txt",
    preload = options.jemalloc and { "libjemalloc.so.2" } or nil,
    env = options.jemalloc and { MALLOC_CONF = "dirty_decay_ms:-1,muzzy_decay_ms:-1" } or nil,
    train = options.train,
    effect = reduced and "precision" or "rounding",
  }
end
