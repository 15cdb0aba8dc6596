-- Data that training reads cannot be held out.
-- expect-error: error_validate_data.lua:6: validate.data is the training data
-- expect-error:   hint: leave it out to hold out the end of the data
local rush = require "optrush"
local text = rush.text(rush.corpus "libtorch")
rush.experiment { name = "same", model = rush.llama(), data = text, validate = { every = 5, data = text } }
