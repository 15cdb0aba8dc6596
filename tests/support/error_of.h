#pragma once
#include <string>

#include "optrush/error.h"

namespace optrush::testing {
/// The message, with its place and cure, of the optrush::Error that `action` throws; empty where it throws
/// none.
template <class Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}
/// The name of the error's code; empty where it throws none.
template <class Action>
std::string code_of(Action&& action) {
  try {
    action();
  } catch (const Error& e) {
    return std::string(to_string(e.code()));
  }
  return {};
}
}  // namespace optrush::testing
