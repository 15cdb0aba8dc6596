#pragma once
#include "optrush/spec.h"
#include "spec/record.h"

namespace optrush {
inline constexpr int64_t kMostSteps = 1'000'000'000;

/// The fields of each struct of a spec. Ranges and documentation are stated only here.
const Record<RopeScaling>& record_of(const RopeScaling*);
const Record<Router>& record_of(const Router*);
const Record<LatentAttention>& record_of(const LatentAttention*);
const Record<DeltaNet>& record_of(const DeltaNet*);
const Record<LlamaSpec>& record_of(const LlamaSpec*);
const Record<DataSpec>& record_of(const DataSpec*);
const Record<TrainSpec>& record_of(const TrainSpec*);
const Record<ValidateSpec>& record_of(const ValidateSpec*);
const Record<SaveSpec>& record_of(const SaveSpec*);
const Record<SampleSpec>& record_of(const SampleSpec*);
const Record<PluginUse>& record_of(const PluginUse*);
const Record<RunSpec>& record_of(const RunSpec*);
}  // namespace optrush
