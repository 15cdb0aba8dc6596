#pragma once
#include <filesystem>
#include <string>

#include "optrush/json.h"

namespace optrush {
/// The fields of a config.json. Null counts as missing, as in Hugging Face's classes.
class ConfigFields {
 public:
  /// Throws an Error if the file can't be read or is not a JSON object.
  explicit ConfigFields(const std::filesystem::path& file);
  /// From the contents of a file; `where` names it in messages.
  ConfigFields(Json contents, std::string where);

  /// Null if there is no such field.
  const Json& operator[](const std::string& key) const;
  /// Whether the file has the key, even with null.
  bool contains(const std::string& key) const { return json_.contains(key); }
  /// The value of a field, with a type of OptionSchema. Throws an Error if it has another type, or if it is
  /// missing and `otherwise` is null.
  Json value(const std::string& key, const std::string& type, const Json& otherwise = {}) const {
    return field((*this)[key], key, type, otherwise);
  }
  /// The same for a value from another place; `name` is for messages.
  Json field(const Json& value, const std::string& name, const std::string& type,
             const Json& otherwise = {}) const;
  /// Throws an Error that names the file.
  [[noreturn]] void refuse(const std::string& what, const std::string& cure) const;

  const std::string& where() const { return where_; }
  const Json& json() const { return json_; }

 private:
  std::string where_;
  Json json_;
};
}  // namespace optrush
