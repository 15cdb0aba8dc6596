-- Loops that catch every error, in a coroutine and outside.
-- expect-error: error_endless.lua:6: the script runs without end
-- expect-error:   hint: check for an endless loop: a script only describes runs
pcall(coroutine.wrap(function() while true do end end))
while true do
  pcall(function() while true do end end)
end
