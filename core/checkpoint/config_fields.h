#pragma once
#include <filesystem>
#include <string>

#include "optrush/json.h"

namespace optrush {
/// The fields of a config.json, by name. Null counts as absent, as it does in Hugging Face's classes.
class ConfigFields {
 public:
  /// An Error where the file can't be read, or holds no table.
  explicit ConfigFields(const std::filesystem::path& file);
  /// The contents of such a file; `where` is its place in messages.
  ConfigFields(Json contents, std::string where);

  /// Null where there is none.
  const Json& operator[](const std::string& key) const;
  /// Whether the file has the key, with null or another value.
  bool contains(const std::string& key) const { return json_.contains(key); }
  /// In the type of an OptionSchema. An Error where it has another, or is absent and `otherwise` is null.
  Json value(const std::string& key, const std::string& type, const Json& otherwise = {}) const {
    return field((*this)[key], key, type, otherwise);
  }
  /// The same for a value that stands elsewhere: `name` is for messages.
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
