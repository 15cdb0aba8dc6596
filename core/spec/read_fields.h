#pragma once
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "optrush/error.h"
#include "optrush/json.h"

namespace optrush {
/// The name of type T in a message: "a string".
template <class T>
constexpr const char* name_of_type() {
  if constexpr (std::is_same_v<T, std::string>)
    return "a string";
  else if constexpr (std::is_same_v<T, bool>)
    return "true or false";
  else if constexpr (std::is_integral_v<T>)
    return "an integer";
  else if constexpr (std::is_floating_point_v<T>)
    return "a number";
  else
    return "a list of strings";
}

template <class T>
bool is_of_type(const Json& value) {
  if constexpr (std::is_same_v<T, std::string>)
    return value.is_string();
  else if constexpr (std::is_same_v<T, bool>)
    return value.is_boolean();
  else if constexpr (std::is_integral_v<T>) {
    static_assert(std::is_same_v<T, int64_t>);
    if (value.is_number_unsigned()) return value.get<uint64_t>() <= INT64_MAX;
    if (!value.is_number_float()) return value.is_number_integer();
    const auto number = value.get<double>();
    return std::trunc(number) == number && std::abs(number) < 0x1p63;
  } else if constexpr (std::is_floating_point_v<T>)
    return value.is_number();
  else
    return value.is_array();
}

/// A required field. An Error states that it is missing or has another type.
template <class T>
T required(const Json& json, const char* key) {
  const auto it = json.find(key);
  if (it == json.end()) throw Error(ErrorCode::invalid_file, std::string("field '") + key + "' is missing");
  if (!is_of_type<T>(*it))
    throw Error(ErrorCode::invalid_file, std::string("field '") + key + "' must be " + name_of_type<T>());
  return it->get<T>();
}

/// An optional field: none if it is missing or null.
template <class T>
std::optional<T> optional_field(const Json& json, const char* key) {
  const auto it = json.find(key);
  if (it == json.end() || it->is_null()) return std::nullopt;
  return required<T>(json, key);
}

inline std::optional<double> number(const Json& json, const char* key) {
  return optional_field<double>(json, key);
}
}  // namespace optrush
