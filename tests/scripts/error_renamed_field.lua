-- The old name of a field is refused; the message has the new name.
-- expect-error: error_renamed_field.lua:7: exp:run: the field 'turns' is now called 'interleave'
-- expect-error:   hint: write interleave = ...
local rush = require "optrush"

local exp = rush.experiment { name = "renamed", model = rush.llama "nano" }
exp:run { turns = true }
