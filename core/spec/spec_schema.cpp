#include <array>

#include "optrush/error.h"
#include "spec/model_kinds.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
Json json_schema(const OptionSchema& field) {
  const bool numbers = field.type.ends_with("[]"), list = field.type == "list" || numbers;
  Json schema = {{"type", list ? "array" : field.type}};
  if (!field.choices.empty()) schema["enum"] = field.choices;
  if (!field.min.is_null()) schema["minimum"] = field.min;
  if (!field.max.is_null()) schema["maximum"] = field.max;
  if (list) schema["items"] = {{"type", numbers ? field.type.substr(0, field.type.size() - 2) : "string"}};
  if (field.type != "object" && !field.fallback.is_null()) schema["default"] = field.fallback;
  schema["description"] = field.doc;
  return schema;
}

Json json_schema(const std::vector<OptionSchema>& fields) {
  Json schema = {{"type", "object"}, {"additionalProperties", false}, {"properties", Json::object()}};
  for (const auto& field : fields) {
    schema["properties"][field.name] = json_schema(field);
    if (field.fallback.is_null()) schema["required"].push_back(field.name);
  }
  return schema;
}

Json reference(const std::string& name) { return {{"$ref", "#/$defs/" + name}}; }

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
                               Part{"mamba", options_of<Mamba2>}};
}  // namespace

std::vector<OptionSchema> spec_fields(const std::string& section) {
  if (section == "run") return fields_of<RunSpec>().options();
  for (const auto& part : kParts)
    if (section == part.name) return part.fields();
  for (const auto& kind : model_kinds())
    if (section == kind.name) return kind.fields();
  throw Error(ErrorCode::unknown_name, "a spec has no section '" + section + "'");
}

Json run_spec_schema() {
  Json schema = record::of_file(
      "run_spec", "RunSpec",
      {{"description", "Complete specification of one run. `optrush worker --spec FILE` repeats it."}});
  schema.update(json_schema(fields_of<RunSpec>().options()));
  schema["properties"]["env"]["additionalProperties"] = {{"type", "string"}};
  schema["properties"]["plugins"]["items"] = reference("plugin_use");
  for (const auto& part : kParts) {
    schema["$defs"][part.name] = json_schema(part.fields());
    if (schema["properties"].contains(part.name)) schema["properties"][part.name] = reference(part.name);
  }
  for (const auto& kind : model_kinds()) {
    schema["$defs"][kind.name] = json_schema(kind.fields());
    schema["allOf"].push_back({{"if", {{"properties", {{"model_kind", {{"const", kind.name}}}}}}},
                               {"then", {{"properties", {{"model", reference(kind.name)}}}}}});
  }
  for (const char* part : {"rope_scaling", "router", "latent", "delta_net", "mamba"})
    schema["$defs"]["llama"]["properties"][part] = reference(part);
  return schema;
}
}  // namespace optrush
