-- Your own model instead of an experiment's: --arg checkpoint=FOLDER names its Hugging Face folder.
--
--   local own = require "own_model"
--   local model = own.model(rush.llama "tiny")
--   train = own.train(model, { micro_batch = 4, seq_len = 512, steps = 8 }, plugins, data)
--
-- Sequences are no longer than those that the model was trained on. The micro-batch is the largest power of two, up to
-- the experiment's, whose step fits into the memory; sequences are halved if a single one does not fit. On a CPU a step
-- has as many tokens as its cores compute in some seconds.
local rush = require "optrush"

local SHORTEST = 64
local FLOPS_OF_A_CORE = 5e11 -- in a step

local folder = rush.arg("checkpoint", "")
local own = { given = folder ~= "" }

--- The checkpoint's model if one is given, otherwise `default`.
function own.model(default)
  return own.given and rush.checkpoint(folder) or default
end

--- The checkpoint's sizes, for what measures operators of these; nil without a checkpoint.
function own.sizes()
  return own.given and rush.sizes(rush.checkpoint(folder)) or nil
end

local function tokens_of_a_step(sizes)
  if rush.device() == "cuda" then return math.huge end
  return FLOPS_OF_A_CORE * rush.ranks() / (6 * sizes.parameters)
end

--- `train` with a length and a micro-batch that suit the model; unchanged without a checkpoint. `plugins`: of the base.
--- `data`: where a plugin asks for data of one kind; left out, random tokens.
function own.train(model, train, plugins, data)
  if not own.given then return train end
  local sizes = rush.sizes(model)
  local fitted = {}
  for key, value in pairs(train) do
    fitted[key] = value
  end
  if sizes.max_positions > 0 then fitted.seq_len = math.min(train.seq_len, sizes.max_positions) end
  local tokens = tokens_of_a_step(sizes) / ((train.accumulation or 1) * (train.world_size or 1))
  while fitted.seq_len > SHORTEST and fitted.seq_len > tokens do
    fitted.seq_len = fitted.seq_len // 2
  end
  local most = 1
  while 2 * most <= train.micro_batch and 2 * most * fitted.seq_len <= tokens do
    most = 2 * most
  end
  repeat
    fitted.micro_batch = 1
    local fits = rush.max_batch { model = model, data = data, train = fitted, plugins = plugins, most = most }
    if not fits then break end -- not predicted: the smallest
    fitted.micro_batch = math.max(1, fits)
    if fits == 0 then fitted.seq_len = fitted.seq_len // 2 end
  until fits > 0 or fitted.seq_len < SHORTEST
  fitted.seq_len = math.max(fitted.seq_len, math.min(SHORTEST, train.seq_len))
  return fitted
end

--- Ends an experiment that trains no model and is given one.
function own.none(instead)
  if own.given then error("this experiment trains no model, so it takes no checkpoint: " .. instead, 0) end
end

return own
