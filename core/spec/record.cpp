#include "spec/record.h"

#include <algorithm>
#include <cmath>

#include "spec/value.h"

namespace optrush::record {
namespace {
[[noreturn]] void refuse(const Expected& expected, const std::string& what, const std::string& cure = {}) {
  if (expected.given) throw Error(ErrorCode::invalid_value, what, cure);
  throw Error(ErrorCode::invalid_file, what, cure);
}
}  // namespace

Json checked(const Json& json, const Expected& expected) try {
  return optrush::checked(expected.schema, json, expected.name, {});
} catch (const Error& e) {
  refuse(expected, e.message(), e.cure());
}

bool has_items(const Json& json, const Expected& expected) {
  if (!json.is_array() && !(expected.given && json.is_object() && json.empty()))
    refuse(expected, expected.name + " must be a list, but is " + shown(json));
  return !json.empty();
}

size_t position(const Json& json, const Expected& expected) {
  const auto text = checked(json, expected).get<std::string>();
  return static_cast<size_t>(std::ranges::find(expected.schema.choices, text) -
                             expected.schema.choices.begin());
}

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

Json of_type(const char* type) {
  Json schema = Json::object();
  schema["type"] = type;
  return schema;
}

Json of_option(const OptionSchema& option, bool integer) {
  Json schema = of_type(integer ? "integer" : option.type.c_str());
  if (!option.choices.empty()) schema["enum"] = option.choices;
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

Expected FieldList::expected(const char* name, const FieldUse& use, OptionSchema option) const {
  option.name = name;
  option.doc = use.doc;
  if (!use.type.empty()) option.type = use.type;
  if (!use.choices.empty()) option.choices = use.choices;
  option.min = use.min;
  option.max = use.max;
  const std::string own = given ? option.name : "field '" + option.name + "'";
  return {std::move(option), given && !subject.empty() ? subject + "." + own : own, given};
}

void FieldList::add(const char* name, const MemberType& type, Member member, FieldUse use,
                    const void* usual) {
  const Expected expected = this->expected(name, use, type.option());
  const bool integer = use.integer;
  Json schema = type.describe(expected.schema, integer);
  if (!use.schema.is_null()) schema.update(use.schema);
  use.schema = std::move(schema);
  push({expected, std::move(use),
        [=, read = type.read](void* object, const Json& json) {
          read(const_cast<void*>(member(object)), json, expected);
        },
        [=, write = type.write](const void* object) {
          return write(member(object), expected.schema, integer);
        }},
       usual);
}

void FieldList::add(const char* name, FieldUse use, decltype(Field::read) read, decltype(Field::write) write,
                    const void* usual) {
  const Expected expected = this->expected(name, use, {});
  push({expected, std::move(use), std::move(read), std::move(write)}, usual);
}

void FieldList::push(Field field, const void* usual) {
  if (given && !field.use.required) field.expected.schema.fallback = written(field, usual);
  Json& schema = field.use.schema;
  if (schema.is_null()) schema = Json::object();
  if (field.use.nullable && schema.contains("type")) schema["type"] = Json::array({schema["type"], "null"});
  if (!field.use.doc.empty()) schema["description"] = std::string(field.use.doc);
  fields_.push_back(std::move(field));
}

Json FieldList::written(const Field& field, const void* object) const {
  Json value = field.write(object);
  return given && value.is_null() ? Json::object() : value;
}

void FieldList::read(void* object, const Json& json) const {
  std::vector<Json::const_iterator> values;
  size_t known = 0;
  for (const Field& field : fields_) {
    auto value = json.find(field.expected.schema.name);
    if (value == json.end() && !field.use.former.empty()) value = json.find(field.use.former);
    if (value != json.end()) ++known;
    values.push_back(value);
  }
  if (!json.is_object() || (!open && known < json.size())) {
    std::vector<std::string> names;
    for (size_t i = 0; i < fields_.size(); ++i)
      names.push_back(values[i] == json.end() ? fields_[i].expected.schema.name : values[i].key());
    check_keys(json, names, "field", subject, {});
  }
  for (size_t i = 0; i < fields_.size(); ++i) {
    const auto& [expected, use, read, write] = fields_[i];
    if (values[i] != json.end()) {
      if (!values[i]->is_null() || given || (use.required && !use.nullable)) read(object, *values[i]);
    } else if (use.required) {
      if (!given) throw Error(ErrorCode::invalid_file, expected.name + " is missing in " + subject);
      throw Error(ErrorCode::missing_value, expected.name + " is missing",
                  "it must be " + allowed(expected.schema));
    }
  }
}

Json FieldList::write(const void* object, const void* usual) const {
  Json json = Json::object();
  json.get_ref<Json::object_t&>().reserve(fields_.size());
  for (const Field& field : fields_) {
    Json value = written(field, object);
    const bool nothing = is_nothing(value);
    if (!field.use.required && field.use.left_out && (nothing || value == field.expected.schema.fallback))
      continue;
    if (!field.use.required && usual != nullptr && (nothing || value == field.write(usual))) continue;
    json[field.expected.schema.name] = std::move(value);
  }
  return json;
}

Json FieldList::schema() const {
  Json schema = of_type("object");
  if (!doc.empty()) schema["description"] = doc;
  for (const Field& field : fields_)
    if (field.use.required || field.use.promised) schema["required"].push_back(field.expected.schema.name);
  if (!open) schema["additionalProperties"] = false;
  for (const Field& field : fields_) schema["properties"][field.expected.schema.name] = field.use.schema;
  return schema;
}

std::vector<OptionSchema> FieldList::options() const {
  std::vector<OptionSchema> options;
  for (const Field& field : fields_) options.push_back(field.expected.schema);
  return options;
}
}  // namespace optrush::record
