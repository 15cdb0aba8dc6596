-- PyTorch itself as an external rung: transformers' Llama from the same initial values, on the same tokens.
--
--   local pytorch = require "peers.pytorch"
--   pytorch { name = "by blocks", with = { "bf16", "sdpa", "fused" }, compile = "default", form = "blocks" }
--   pytorch { name = "FSDP2", by = "fsdp", with = { "sdpa", "fused" } }
--
--   with      any of "bf16" (autocast), "sdpa", "fused" (AdamW), and on one rank "muon", "bf16_weights" (weights in
--             bf16, which AdamW updates from masters in fp32), "liger" (Liger Kernel's rotary embedding, norms, SwiGLU
--             and fused loss, on a GPU) and "float8" (torchao's linears, with one scale per tensor); none: as the naive
--             base
--   by        of several ranks: "ddp" (DistributedDataParallel), "fsdp" (fully_shard), "tp" (parallelize_module), "pp"
--             (PipelineStage), "cp" (context_parallel, on GPUs) or "ep" (experts over ranks and fully_shard, by
--             transformers 5.22 or newer), over the backend of ours, with the ranks and the batch of the rung below;
--             tp and pp need tie_embeddings = false
--   keep      fsdp: parameters stay whole from forward to backward
--   schedule  pp: "GPipe" or "1F1B"
--   compile   of one rank: a mode of torch.compile; nil: eager
--   form      of compile: "whole" (model and loss; the default), "blocks" (each block, then the head with the loss) or
--             "shipped" (transformers as it is: its attention has a dense mask under torch.compile, so no headline
--             names this row)
--   jemalloc  preloads jemalloc, keeping freed memory
--   train     settings that differ from the rung below, such as micro_batch
--
-- Each row notes the attention kernel that ran. It needs what requirements.txt, requirements-kernels.txt (Liger,
-- torchao) and packages.txt beside it list; ./optrush setup peers installs all.
local rush = require "optrush"

local FORMS = { whole = true, blocks = true, shipped = true }
local PACKAGES_OF_GPU = { liger = true, float8 = true }

return function(options)
  local form = options.form or "whole"
  if not FORMS[form] then
    error(("peers.pytorch: form must be 'whole', 'blocks' or 'shipped', but is '%s'"):format(form), 2)
  end
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
    if options.compile then add("--compile", options.compile, "--form", form) end
  end
  add("--start", "{start}", "--spec", "{spec}", "--out", "{out}", "--metrics", "{metrics}", "--with")
  local reduced, requirements = false, "peers/requirements.txt"
  for _, technique in ipairs(options.with or {}) do
    add(technique)
    -- Muon iterates in bf16.
    reduced = reduced or technique == "bf16" or technique == "bf16_weights" or technique == "muon"
    reduced = reduced or technique == "float8"
    if PACKAGES_OF_GPU[technique] then requirements = "peers/requirements-kernels.txt" end
  end
  return rush.external {
    name = options.name,
    command = command,
    files = {
      "peers/transformers_twin.py",
      "peers/forms.py",
      "peers/attention.py",
      "../scripts/python/optimization_rush/clock.py",
      "../scripts/python/optimization_rush/files.py",
      "../scripts/python/optimization_rush/gpu_use.py",
      "../scripts/python/optimization_rush/interleaving.py",
    },
    interleave = true,
    headline = not (options.compile and form == "shipped"),
    requirements = requirements,
    packages = "peers/packages.txt",
    preload = options.jemalloc and { "libjemalloc.so.2" } or nil,
    env = options.jemalloc and { MALLOC_CONF = "dirty_decay_ms:-1,muzzy_decay_ms:-1" } or nil,
    train = options.train,
    effect = reduced and "precision" or "rounding",
  }
end
