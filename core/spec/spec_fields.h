#pragma once
#include "optrush/spec.h"
#include "spec/fields.h"

namespace optrush {
inline constexpr int64_t kMostSteps = 1'000'000'000;

/// The fields of each struct of a spec. Ranges and documentation are stated only here.
const Fields<RopeScaling>& rope_scaling_fields();
const Fields<LlamaSpec>& llama_fields();
const Fields<DataSpec>& data_fields();
const Fields<TrainSpec>& train_fields();
const Fields<ValidateSpec>& validate_fields();
const Fields<SaveSpec>& save_fields();
const Fields<SampleSpec>& sample_fields();
const Fields<PluginUse>& plugin_use_fields();
const Fields<RunSpec>& run_spec_fields();
}  // namespace optrush
