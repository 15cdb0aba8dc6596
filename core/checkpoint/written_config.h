#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/architectures.h"
#include "optrush/json.h"
#include "optrush/spec.h"

namespace optrush {
/// config.json for this model, which transformers 4 and 5 read alike, in the first class of architectures()
/// that has its choices. An Error where none has. The type of the weights is missing: see with_dtype().
Json hugging_face_config(const LlamaSpec&, int64_t max_positions);

/// A warning where a run saves states whose model no class of transformers has.
std::optional<std::string> unwritable(const RunSpec&);

/// config.json for weights that were trained from this checkpoint: that of the folder, in spellings that
/// transformers 4 and 5 read alike.
Json config_of_checkpoint(const std::filesystem::path& folder);

/// How the class of this config.json stores parameters.
Storage storage_of(const Json& config);
/// How the class in which this model is written names them; common where no class has the model.
ParameterNames names_of(const LlamaSpec&);

/// Sets the type that transformers 5 ("dtype") and 4 ("torch_dtype") load the weights in: "fp32", "fp64" or
/// "bf16".
Json with_dtype(Json config, const std::string& dtype);
}  // namespace optrush
