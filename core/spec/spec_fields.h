#pragma once
#include "optrush/spec.h"
#include "spec/record.h"

namespace optrush {
inline constexpr int64_t kMostSteps = 1'000'000'000;

/// The fields of each struct of a spec. Ranges and documentation are stated only here.
Record<RopeScaling> record_of(const RopeScaling*);
Record<Router> record_of(const Router*);
Record<LatentAttention> record_of(const LatentAttention*);
Record<DeltaNet> record_of(const DeltaNet*);
Record<LlamaSpec> record_of(const LlamaSpec*);
Record<DataSpec> record_of(const DataSpec*);
Record<TrainSpec> record_of(const TrainSpec*);
Record<ValidateSpec> record_of(const ValidateSpec*);
Record<SaveSpec> record_of(const SaveSpec*);
Record<SampleSpec> record_of(const SampleSpec*);
Record<PluginUse> record_of(const PluginUse*);
Record<RunSpec> record_of(const RunSpec*);
}  // namespace optrush
