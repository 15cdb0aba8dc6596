#include "optrush/error.h"
#include "spec/model_kinds.h"
#include "spec/spec_fields.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
Json json_schema(const OptionSchema& field) {
  const bool integers = field.type == "integer[]", list = field.type == "list" || integers;
  Json schema = {{"type", list ? "array" : field.type}};
  if (!field.choices.empty()) schema["enum"] = field.choices;
  if (!field.min.is_null()) schema["minimum"] = field.min;
  if (!field.max.is_null()) schema["maximum"] = field.max;
  if (list) schema["items"] = {{"type", integers ? "integer" : "string"}};
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
}  // namespace

std::vector<OptionSchema> spec_fields(const std::string& section) {
  if (section == "run") return run_spec_fields().schemas();
  if (section == "train") return train_fields().schemas();
  if (section == "validate") return validate_fields().schemas();
  if (section == "save") return save_fields().schemas();
  if (section == "sample") return sample_fields().schemas();
  if (section == "data") return data_fields().schemas();
  if (section == "rope_scaling") return rope_scaling_fields().schemas();
  for (const auto& kind : model_kinds())
    if (section == kind.name) return kind.fields();
  throw Error(ErrorCode::unknown_name, "a spec has no section '" + section + "'");
}

Json run_spec_schema() {
  Json schema = {
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"$id", "optrush/run_spec"},
      {"title", "RunSpec"},
      {"description", "Complete specification of one run. `optrush worker --spec FILE` repeats it."}};
  schema.update(json_schema(run_spec_fields().schemas()));
  schema["properties"]["data"] = reference("data");
  schema["properties"]["train"] = reference("train");
  schema["properties"]["validate"] = reference("validate");
  schema["properties"]["save"] = reference("save");
  schema["properties"]["sample"] = reference("sample");
  schema["properties"]["env"]["additionalProperties"] = {{"type", "string"}};
  schema["properties"]["plugins"]["items"] = reference("plugin_use");
  schema["$defs"] = {{"data", json_schema(data_fields().schemas())},
                     {"train", json_schema(train_fields().schemas())},
                     {"validate", json_schema(validate_fields().schemas())},
                     {"save", json_schema(save_fields().schemas())},
                     {"sample", json_schema(sample_fields().schemas())},
                     {"plugin_use", json_schema(plugin_use_fields().schemas())},
                     {"rope_scaling", json_schema(rope_scaling_fields().schemas())}};
  for (const auto& kind : model_kinds()) {
    schema["$defs"][kind.name] = json_schema(kind.fields());
    schema["allOf"].push_back({{"if", {{"properties", {{"model_kind", {{"const", kind.name}}}}}}},
                               {"then", {{"properties", {{"model", reference(kind.name)}}}}}});
  }
  schema["$defs"]["llama"]["properties"]["rope_scaling"] = reference("rope_scaling");
  return schema;
}
}  // namespace optrush
