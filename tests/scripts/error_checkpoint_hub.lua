-- The name of a model on the hub is not a folder, and nothing is downloaded.
-- expect-error: error_checkpoint_hub.lua:5: there is no folder '<scripts>/meta-llama/Llama-3.2-1B'; names on the Hugging Face hub are not downloaded
-- expect-error:   hint: hf download meta-llama/Llama-3.2-1B --local-dir Llama-3.2-1B
local rush = require "optrush"
rush.checkpoint "meta-llama/Llama-3.2-1B"
