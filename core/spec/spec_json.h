#pragma once
#include <string>
#include <vector>

#include "optrush/options.h"
#include "optrush/spec.h"
#include "spec/record.h"

namespace optrush {
inline constexpr int64_t kMostSteps = 1'000'000'000;

/// The fields of each struct of a spec. Ranges and documentation are stated only here.
Record<RopeScaling> record_of(const RopeScaling*);
Record<Router> record_of(const Router*);
Record<LatentAttention> record_of(const LatentAttention*);
Record<DeltaNet> record_of(const DeltaNet*);
Record<FullAttention> record_of(const FullAttention*);
Record<Mamba2> record_of(const Mamba2*);
Record<LlamaSpec> record_of(const LlamaSpec*);
Record<DataSpec> record_of(const DataSpec*);
Record<TrainSpec> record_of(const TrainSpec*);
Record<ValidateSpec> record_of(const ValidateSpec*);
Record<SaveSpec> record_of(const SaveSpec*);
Record<SampleSpec> record_of(const SampleSpec*);
Record<PluginUse> record_of(const PluginUse*);
Record<RunSpec> record_of(const RunSpec*);

/// Reading is strict: an unknown key is an Error with "did you mean", and a value out of range is an Error
/// with the range. `where` is the place in the user's script. A missing field takes its default.
LlamaSpec llama_from_json(const Json&, const std::string& where);
/// Throws an Error if a layer cannot read what `kv_shared_layers` and `per_layer_vocab_size` promise.
void check_carried(const LlamaSpec&, const std::string& where);
/// With a checkpoint, only that field: the checkpoint determines the others.
Json to_json(const LlamaSpec&);
RunSpec run_spec_from_json(const Json&, const std::string& where);

/// Whether a run validates on the held-out end of its training data (for random data: on other sequences).
bool validates_on_own_data(const RunSpec&);
/// Number of sequences at the end of its text or tokens that training leaves out.
int64_t held_out(const RunSpec&);

/// Whether `epochs` alone ends the run, because no number of steps was given.
bool only_epochs(const TrainSpec&);
/// "13 steps" or "3 epochs", warm-up included.
std::string length_of(const TrainSpec&);

/// The learning rate of a step, counted from 0. It rises linearly to train.lr at step lr_warmup. Then, unless
/// lr_decay is "none", it falls to lr_min * train.lr at step lr_steps and stays there. The cosine schedule is
/// half a period (arXiv:1608.03983 without restarts).
double learning_rate(const TrainSpec& train, int64_t step);
/// Throws an Error if a training that continues from the state of step `first` is past its schedule.
void check_schedule(const TrainSpec& train, int64_t first);

/// Checks a model of this kind and adds default values.
Json validate_model(const std::string& kind, const Json& model, const std::string& where);

/// Merges `patch` into `base` recursively. Unlike in a JSON merge patch, null does not delete a field.
void merge(Json& base, const Json& patch);
/// `base` with the settings of a rung, for example {"train": {"micro_batch": 8}, "device": "cpu"}. A changed
/// `data.kind`, `model_kind` or `model.checkpoint` starts from the defaults of the new kind. Settings with
/// `epochs` replace the default number of steps by the largest one. Throws like run_spec_from_json.
RunSpec merged(const RunSpec& base, const Json& settings, const std::string& where);

/// The fields of "run", "train", "data", "validate", "save", "rope_scaling" or a kind of model, in order, for
/// docs and editor stubs. Their types are those of options, and "object".
std::vector<OptionSchema> spec_fields(const std::string& section);
}  // namespace optrush
