#include "spec/model_kinds.h"

#include <array>

#include "base/suggest.h"
#include "base/text.h"
#include "optrush/error.h"
#include "spec/collective_spec.h"
#include "spec/spec_json.h"
#include "spec/value.h"

namespace optrush {
namespace {
template <class T>
Json validated(const Json& model, const std::string& where) {
  return to_json(fields_of<T>().read(model, where));
}

struct Part {
  const char* name;
  std::vector<OptionSchema> (*fields)();
};
/// The structs of a spec besides the kinds of models.
constexpr std::array kParts = {Part{"data", options_of<DataSpec>},
                               Part{"train", options_of<TrainSpec>},
                               Part{"validate", options_of<ValidateSpec>},
                               Part{"save", options_of<SaveSpec>},
                               Part{"sample", options_of<SampleSpec>},
                               Part{"plugin_use", options_of<PluginUse>},
                               Part{"rope_scaling", options_of<RopeScaling>},
                               Part{"router", options_of<Router>},
                               Part{"latent", options_of<LatentAttention>},
                               Part{"delta_net", options_of<DeltaNet>},
                               Part{"full_attention", options_of<FullAttention>},
                               Part{"mamba", options_of<Mamba2>}};
}  // namespace

const std::vector<ModelKind>& model_kinds() {
  static const std::vector<ModelKind> kinds = {
      {"llama",
       [](const Json& json, const std::string& where) { return to_json(llama_from_json(json, where)); },
       options_of<LlamaSpec>},
      {"operator", validated<OperatorSpec>, options_of<OperatorSpec>,
       [](const Json& model, const TrainSpec& train) {
         return operator_work(fields_of<OperatorSpec>().read(model, "model"), train);
       }},
      {"collective", validated<CollectiveSpec>, options_of<CollectiveSpec>},
      // A program of the user trains its own model.
      {"program",
       [](const Json& json, const std::string& where) {
         check_keys(json, {}, "field", "model", where);
         return json;
       },
       [] { return std::vector<OptionSchema>(); }},
  };
  return kinds;
}

void rename_old_kind(std::string& kind, Json& model) {
  if (kind != "swiglu_stack" || !model.is_object() || model.value("init_std", 0.0) != 0) return;
  const auto field = [&](const char* name, int64_t fallback) {
    return model.contains(name) ? model.at(name) : Json(fallback);
  };
  kind = "operator";
  model = {{"op", "mlp"},
           {"dim", field("dim", 256)},
           {"ffn_dim", field("ffn_dim", 1024)},
           {"repeat", field("n_layers", 4)}};
}

Json validate_model(const std::string& kind, const Json& model, const std::string& where) {
  for (const auto& known : model_kinds())
    if (known.name == kind) return known.validate(model, where);
  throw Error(ErrorCode::unknown_name, "unknown kind of model '" + kind + "'",
              did_you_mean(kind, texts_of(model_kinds(), &ModelKind::name)), where);
}

std::vector<OptionSchema> spec_fields(const std::string& section) {
  if (section == "run") return fields_of<RunSpec>().options();
  for (const auto& part : kParts)
    if (section == part.name) return part.fields();
  for (const auto& kind : model_kinds())
    if (section == kind.name) return kind.fields();
  throw Error(ErrorCode::unknown_name, "a spec has no section '" + section + "'");
}
}  // namespace optrush
