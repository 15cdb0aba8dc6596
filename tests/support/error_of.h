#pragma once
#include <string>

#include "optrush/error.h"

namespace optrush::testing {
/// The message of the optrush::Error that `action` throws; empty where it throws none.
template <class Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}
}  // namespace optrush::testing
