#include "spec/fields.h"

#include "optrush/error.h"
#include "spec/value.h"

namespace optrush::fields {
void FieldList::add(OptionSchema schema, const MemberType& type, Member member) {
  const auto read = [=, read = type.read](void* object, const Json& json, const std::string& subject,
                                          const std::string& where) {
    read(const_cast<void*>(member(object)), schema, checked(schema, json, subject, where));
  };
  add({schema, read, [=, write = type.write](const void* object) { return write(member(object), schema); }});
}

void FieldList::add_former(std::string former, std::string name) {
  former_.emplace_back(std::move(former), std::move(name));
}

void FieldList::read(void* object, const Json& given, const std::string& subject,
                     const std::string& where) const {
  const Json json = with_present_names(given);
  std::vector<std::string> names;
  for (const Field& field : fields_) names.push_back(field.schema.name);
  check_keys(json, names, "field", subject, where);
  for (const auto& [schema, read, write] : fields_) {
    const std::string name = subject.empty() ? schema.name : subject + "." + schema.name;
    if (const auto found = json.find(schema.name); found != json.end())
      read(object, *found, name, where);
    else if (schema.fallback.is_null())
      throw Error(ErrorCode::missing_value, name + " is missing", "it must be " + allowed(schema), where);
  }
}

Json FieldList::write(const void* object) const {
  Json json = Json::object();
  json.get_ref<Json::object_t&>().reserve(fields_.size());
  for (const Field& field : fields_) json[field.schema.name] = field.write(object);
  return json;
}

std::vector<OptionSchema> FieldList::schemas() const {
  std::vector<OptionSchema> schemas;
  for (const Field& field : fields_) schemas.push_back(field.schema);
  return schemas;
}

Json FieldList::with_present_names(Json json) const {
  for (const auto& [former, name] : former_)
    if (json.is_object() && json.contains(former) && !json.contains(name)) {
      json[name] = json.at(former);
      json.erase(former);
    }
  return json;
}
}  // namespace optrush::fields
