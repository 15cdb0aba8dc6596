#pragma once
#include <optional>
#include <string>

#include "optrush/error.h"
#include "spec/record.h"

namespace optrush {
/// An optional field: none if it is missing or null.
template <class T>
std::optional<T> optional_field(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it == json.end() ? std::nullopt : record::taken<std::optional<T>>(*it, key);
}

/// A required field. An Error states that it is missing or has another type.
template <class T>
T required(const Json& json, const char* key) {
  if (!json.contains(key))
    throw Error(ErrorCode::invalid_file, std::string("field '") + key + "' is missing");
  return record::taken<T>(json.at(key), key);
}

inline std::optional<double> number(const Json& json, const char* key) {
  return optional_field<double>(json, key);
}
}  // namespace optrush
