#include "model/model.h"

#include "base/suggest.h"
#include "checkpoint/hugging_face_model.h"
#include "model/hugging_face.h"
#include "model/kinds.h"
#include "optrush/error.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
LlamaSpec complete(const Json& json) {
  auto spec = llama_from_json(json, "model");
  if (const auto folder = spec.checkpoint; !folder.empty()) {
    spec = read_hugging_face_model(folder).llama;
    spec.checkpoint = folder;
  }
  return spec;
}

Model llama(const RunSpec& run, Params& params, at::ScalarType dtype) {
  const LlamaSpec spec = complete(run.model);
  Model model = declare_llama(spec, params, dtype, run.train.seq_len);
  if (!spec.checkpoint.empty()) Checkpoint(spec.checkpoint).check_complete(params);
  return model;
}

Model operator_alone(const RunSpec& run, Params& params, at::ScalarType dtype) {
  return declare_operator(fields_of<OperatorSpec>().read(run.model, "model"), params, dtype);
}
Model collective_alone(const RunSpec& run, Params& params, at::ScalarType dtype) {
  return declare_collective(fields_of<CollectiveSpec>().read(run.model, "model"), params, dtype);
}
}  // namespace

LlamaSpec llama_of(const RunSpec& spec) {
  if (spec.model_kind != "llama")
    throw Error(ErrorCode::unsupported, "a model of kind '" + spec.model_kind + "' is not a decoder",
                "use rush.llama or rush.checkpoint");
  return complete(spec.model);
}

double AttentionPairs::of(int64_t length) const {
  const auto all = static_cast<double>(length), seen = static_cast<double>(window);
  const double whole = all * all;
  if (window == 0 || window >= length) return whole;
  return (1 - windowed) * whole + windowed * (all * (2 * seen - 1) - seen * (seen - 1));
}

void edit_for_model(const RunSpec& spec, Recipe& recipe) {
  if (spec.model_kind == "llama") edit_for_llama(llama_of(spec), spec.train.seq_len, recipe);
  if (spec.model_kind == "collective")
    call_collective(fields_of<CollectiveSpec>().read(spec.model, "model"), recipe);
}

Model declare_model(const RunSpec& spec, Params& params, at::ScalarType dtype) {
  using Declare = Model (*)(const RunSpec&, Params&, at::ScalarType);
  static constexpr std::pair<const char*, Declare> kinds[] = {
      {"llama", llama},
      {"operator", operator_alone},
      {"collective", collective_alone},
  };
  std::vector<std::string> names;
  for (const auto& [name, declare] : kinds) {
    if (spec.model_kind == name) return declare(spec, params, dtype);
    names.emplace_back(name);
  }
  throw Error(ErrorCode::unknown_name, "unknown kind of model '" + spec.model_kind + "'",
              did_you_mean(spec.model_kind, names));
}
}  // namespace optrush
