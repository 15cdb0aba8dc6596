#pragma once
#include <gmock/gmock.h>

#include <string>

#include "optrush/error.h"

namespace optrush::testing {
/// "CODE: PLACE: message\n  hint: cure" of the optrush::Error that `action` throws. Empty if it throws none.
template <class Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& e) {
    return std::string(to_string(e.code())) + ": " + e.what();
  }
  return {};
}

/// Matches the text of error_of(): an error with this code that contains all `parts`, such as its place,
/// names and values. The words between them may change.
template <class... Parts>
auto is_error(const std::string& code, const Parts&... parts) {
  return ::testing::AllOf(::testing::StartsWith(code + ": "), ::testing::HasSubstr(parts)...);
}
}  // namespace optrush::testing
