-- A string that doubles without end.
-- expect-error: error_memory.lua: the script needs more than 256 MiB of memory
-- expect-error:   hint: check for a table or string that grows in a loop: a script only describes runs
local text = "x"
while true do text = text .. text end
