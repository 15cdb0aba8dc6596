#include "checkpoint/config_fields.h"

#include <utility>

#include "base/files.h"
#include "optrush/error.h"
#include "spec/value.h"

namespace optrush {
ConfigFields::ConfigFields(const std::filesystem::path& file)
    : ConfigFields(read_json(file), file.string()) {}

ConfigFields::ConfigFields(Json contents, std::string where)
    : where_(std::move(where)), json_(std::move(contents)) {
  if (!json_.is_object()) refuse("must be an object, but is " + shown(json_), {});
}

const Json& ConfigFields::operator[](const std::string& key) const {
  static const Json absent;
  const auto it = json_.find(key);
  return it == json_.end() ? absent : *it;
}

Json ConfigFields::field(const Json& value, const std::string& name, const std::string& type,
                         const Json& otherwise) const {
  if (value.is_null() && otherwise.is_null())
    throw Error(ErrorCode::invalid_file, "'" + name + "' is missing", {}, where_);
  return value.is_null() ? otherwise : checked({.type = type}, value, "'" + name + "'", where_);
}

void ConfigFields::refuse(const std::string& what, const std::string& cure) const {
  throw Error(ErrorCode::invalid_file, what, cure, where_);
}
}  // namespace optrush
