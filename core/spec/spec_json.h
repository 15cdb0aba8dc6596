#pragma once
#include <string>
#include <vector>

#include "optrush/options.h"
#include "optrush/spec.h"

namespace optrush {
/// Strict in both directions: an unknown key is an Error with "did you mean", a value out of range names the
/// range. `where` is the place that the user wrote. A missing field takes its default.
LlamaSpec llama_from_json(const Json&, const std::string& where);
/// With a checkpoint: that field alone, for it gives the others.
Json to_json(const LlamaSpec&);
DataSpec data_from_json(const Json&, const std::string& where);
Json to_json(const DataSpec&);
TrainSpec train_from_json(const Json&, const std::string& where);
Json to_json(const TrainSpec&);
ValidateSpec validate_from_json(const Json&, const std::string& where);
Json to_json(const ValidateSpec&);
PluginUse plugin_use_from_json(const Json&, const std::string& where);
Json to_json(const PluginUse&);
RunSpec run_spec_from_json(const Json&, const std::string& where);
Json to_json(const RunSpec&);

/// Whether a run validates on the end of its own data, or on other sequences of random data.
bool validates_on_own_data(const RunSpec&);
/// Sequences at the end of its text or tokens that training leaves out.
int64_t held_out(const RunSpec&);

/// Checks a model of this kind and fills in defaults.
Json validate_model(const std::string& kind, const Json& model, const std::string& where);

/// `base` with the settings of a rung in place of its own: {"train": {"micro_batch": 8}, "device": "cpu"}.
/// Another `data.kind`, a `model_kind` or a `model.checkpoint` starts from that kind's defaults. Errors as in
/// run_spec_from_json.
RunSpec merged(const RunSpec& base, const Json& settings, const std::string& where);

/// The fields of "run", "train", "data", "validate", "save", "rope_scaling" or a kind of model, in order, for
/// docs and editor stubs. Besides the types of options there is "object".
std::vector<OptionSchema> spec_fields(const std::string& section);
/// docs/schema/run_spec.schema.json, made from the same fields.
Json run_spec_schema();
}  // namespace optrush
