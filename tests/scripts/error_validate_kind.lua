-- A model that reads no tokens has no loss on held-out tokens.
-- expect-error: error_validate_kind.lua:5: validate: a model of kind 'operator' does not train on tokens
-- expect-error:   hint: leave validate out, or train a Llama
local rush = require "optrush"
rush.experiment { name = "stack", model = rush.operator("mlp"), validate = { every = 5 } }
