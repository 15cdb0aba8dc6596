-- Only a plugin computes in this type: the message names the plugin.
-- expect-error: error_dtype_of_plugin.lua:5: train.dtype must be one of 'fp32', 'fp64', 'bf16', but is "fp16": it sets the type of the parameters
-- expect-error:   hint: to compute in fp16, stack { "mixed_precision", { dtype = "fp16" } }
local rush = require "optrush"
rush.experiment { name = "dtype", model = rush.llama "nano", train = { dtype = "fp16" } }
