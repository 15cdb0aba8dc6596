-- A field's former name is refused with the present one.
-- expect-error: error_renamed_field.lua:7: exp:run: the field 'turns' is now called 'interleave'
-- expect-error:   hint: write interleave = ...
local rush = require "optrush"

local exp = rush.experiment { name = "renamed", model = rush.llama "nano" }
exp:run { turns = true }
