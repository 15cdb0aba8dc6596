#include "spec/record.h"

#include <algorithm>
#include <cmath>

#include "base/suggest.h"
#include "optrush/error.h"

namespace optrush::record {
bool is_nothing(const Json& value) {
  if (!value.is_object()) return value.is_null() || value == "" || (value.is_array() && value.empty());
  return std::ranges::all_of(value, is_nothing);
}

Json written_number(double value, bool integer) {
  if (!std::isfinite(value)) return nullptr;
  constexpr double kMost = 0x1p62;
  if (integer && std::trunc(value) == value && std::abs(value) < kMost) return static_cast<int64_t>(value);
  return value;
}

void refuse(const std::string& name, const char* what) {
  throw Error(ErrorCode::invalid_file, "field '" + name + "' must be " + what);
}

size_t position(std::span<const std::string_view> names, const Json& json, const std::string& name) {
  const auto text = taken<std::string>(json, name);
  const auto found = std::ranges::find(names, text);
  if (found == names.end())
    throw Error(ErrorCode::invalid_file, "unknown " + name + " '" + text + "'",
                did_you_mean(text, {names.begin(), names.end()}));
  return static_cast<size_t>(found - names.begin());
}

Json of_type(const char* type) {
  Json schema = Json::object();
  schema["type"] = type;
  return schema;
}

Json of_names(std::span<const std::string_view> names) {
  Json schema = of_type("string");
  for (const std::string_view name : names) schema["enum"].push_back(std::string(name));
  return schema;
}

Json list_of(Json items) {
  Json schema = of_type("array");
  schema["items"] = std::move(items);
  return schema;
}

Json object_of(Json values, bool nullable) {
  if (nullable) values["type"] = Json::array({values["type"], "null"});
  Json schema = of_type("object");
  schema["additionalProperties"] = std::move(values);
  return schema;
}

FieldList::FieldList(std::string subject, std::string doc)
    : subject_(std::move(subject)), doc_(std::move(doc)) {}

void FieldList::add(Field field) {
  Json& schema = field.use.schema;
  if (schema.is_null()) schema = Json::object();
  if (field.use.nullable && schema.contains("type")) schema["type"] = Json::array({schema["type"], "null"});
  if (!field.use.doc.empty()) schema["description"] = std::string(field.use.doc);
  fields_.push_back(std::move(field));
}

void FieldList::add(const char* name, const MemberType& type, Member member, FieldUse use) {
  const bool integer = use.integer;
  Json schema = type.describe(integer);
  if (!use.schema.is_null()) schema.update(use.schema);
  use.schema = std::move(schema);
  add({name, std::move(use),
       [=, read = type.read, name = std::string(name)](void* object, const Json& json) {
         read(const_cast<void*>(member(object)), json, name);
       },
       [=, write = type.write](const void* object) { return write(member(object), integer); }});
}

void FieldList::read(void* object, const Json& json) const {
  if (!open || !json.is_object()) {
    std::vector<std::string> names;
    for (const Field& field : fields_) names.push_back(field.name);
    check_keys(json, names, "field", subject_, {});
  }
  for (const Field& field : fields_) {
    const auto found = json.find(field.name);
    if (found == json.end()) {
      if (field.use.required)
        throw Error(ErrorCode::invalid_file, "field '" + field.name + "' is missing in " + subject_);
    } else if (!found->is_null() || (field.use.required && !field.use.nullable)) {
      field.read(object, *found);
    }
  }
}

Json FieldList::write(const void* object, const void* usual) const {
  Json json = Json::object();
  json.get_ref<Json::object_t&>().reserve(fields_.size());
  for (const Field& field : fields_) {
    Json value = field.write(object);
    const bool nothing = is_nothing(value);
    if (!field.use.required && field.use.left_out && nothing) continue;
    if (!field.use.required && usual != nullptr && (nothing || value == field.write(usual))) continue;
    json[field.name] = std::move(value);
  }
  return json;
}

Json FieldList::schema() const {
  Json schema = of_type("object");
  if (!doc_.empty()) schema["description"] = doc_;
  for (const Field& field : fields_)
    if (field.use.required || field.use.promised) schema["required"].push_back(field.name);
  if (!open) schema["additionalProperties"] = false;
  for (const Field& field : fields_) schema["properties"][field.name] = field.use.schema;
  return schema;
}
}  // namespace optrush::record
