-- Every call with very little memory: it works or fails with an error, and works again when there is memory.
-- expect: true	true
-- expect: run memory/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172
local rush = require "optrush"

--- Fills the remaining memory with a table of pieces, the largest of `size` bytes.
local function hoard(size)
  local pieces, count = {}, 0
  for i = 1, 300 do pieces[i] = false end
  while size >= 64 and count < 300 do
    local ok, piece = pcall(string.rep, "x", size)
    if ok then
      count = count + 1
      pieces[count] = piece
    else
      size = size // 2
    end
  end
  return pieces, count
end

local calls = {
  function() rush.llama("llama-3.2-1b", { rope_scaling = { factor = 8 } }) end,
  function() rush.rung("a", "lora", { target_modules = { "a", "b", "c" } }) end,
  function() rush.plugins() end,
  function() rush.rung("a", "lroa") end,
  function() return rush.nothing end,
  function() rush.text(rush.corpus "libtorch") end,
  function() require "modules.quiet" end,
  function() require "nowhere" end,
  function() rush.experiment { name = "x" } end,
}
local most = hoard(1 << 26)
for i = 300, 1, -1 do
  if most[i] and #most[i] <= 1 << 16 then most[i] = false end
end

local failed, worked = 0, 0
for _, call in ipairs(calls) do
  local pieces, count = hoard(1 << 15)
  for i = count, 1, -1 do
    pieces[i] = false
    local ok, message = pcall(call)
    if not ok and message == "not enough memory" then failed = failed + 1 else worked = worked + 1 end
  end
end
most = nil
print(failed > 0, worked > 0)
rush.experiment { name = "memory", model = rush.llama "nano" }:run()
