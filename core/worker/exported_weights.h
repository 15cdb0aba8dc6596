#pragma once
#include <memory>
#include <set>
#include <string>

#include "checkpoint/architectures.h"
#include "io/safetensors.h"
#include "model/hugging_face.h"
#include "optrush/options.h"
#include "train/run_setup.h"

namespace optrush {
// The weights that `optrush weights` writes of a run, as a function of its spec and its parameters.

/// The run on one device with only the plugins of these effects.
RunSpec reduced_to(RunSpec, const std::set<Effect>&);
/// The names of the model's parameters without plugins.
std::set<std::string> own_parameters(RunSpec);
/// A session of the reduced run with initial values. Its type is at least fp32, for sums in merged matrices.
std::unique_ptr<RunSetup> session_to_export(RunSpec, at::Device);
/// Whether plugins added parameters.
bool has_adapter(const Session&, const std::set<std::string>& own);

/// The model's parameters, with merged adapters. A tied matrix with an adapter is no longer tied.
NamedTensors model_weights(Session&, const std::set<std::string>& own);
/// The parameters that plugins added and the model's trained ones, with PEFT's names.
NamedTensors adapter_weights(const Session&, const std::set<std::string>& own);
/// The file with these weights in the type `dtype`: "fp32", "fp64" or "bf16".
SafetensorsContent weights_content(NamedTensors, const std::string& dtype, const Storage&);
}  // namespace optrush
