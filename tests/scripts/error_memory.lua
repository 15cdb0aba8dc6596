-- A string that doubles for ever.
-- expect-error: error_memory.lua: the script needs more than 256 MiB of memory
-- expect-error:   hint: an experiment only describes runs; does a loop or a string grow without end?
local text = "x"
while true do text = text .. text end
