#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/architectures.h"
#include "optrush/json.h"
#include "optrush/spec.h"

namespace optrush {
/// config.json for this model, readable by transformers 4 and 5, as the first class of architectures() that
/// can represent it. Throws an Error if there is none. The type of the weights is left out: see with_dtype().
Json hugging_face_config(const LlamaSpec&, int64_t max_positions);

/// A warning if a run saves states of a model that no class of transformers can represent.
std::optional<std::string> unwritable(const RunSpec&);

/// config.json for weights trained from this checkpoint: the folder's, in a form that transformers 4 and 5
/// read.
Json config_of_checkpoint(const std::filesystem::path& folder);

/// How the class of this config.json stores parameters.
Storage storage_of(const Json& config);
/// The same for the class of the model's checkpoint, or else the class in which the model is written; the
/// defaults if there is none.
Storage storage_of(const LlamaSpec&);

/// Sets the type in which transformers 5 ("dtype") and 4 ("torch_dtype") load the weights: "fp32", "fp64" or
/// "bf16".
Json with_dtype(Json config, const std::string& dtype);
}  // namespace optrush
