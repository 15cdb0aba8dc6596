#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <utility>

namespace optrush {
/// Refuses a number on the command line unless `holds` returns true. `allowed` is for the message: "a number
/// above 0". Help texts show `type` behind the option.
inline CLI::Validator checked_number(std::function<bool(double)> holds, const std::string& allowed,
                                     std::string type) {
  return {[holds = std::move(holds), allowed](std::string& text) {
            double number = 0;
            const bool good = CLI::detail::lexical_cast(text, number) && holds(number);
            return good ? std::string() : "must be " + allowed + ", but is '" + text + "'";
          },
          std::move(type)};
}
inline CLI::Validator above_zero() {
  return checked_number([](double number) { return number > 0; }, "a number above 0", "POSITIVE");
}
inline CLI::Validator zero_or_more() {
  return checked_number([](double number) { return number >= 0; }, "0 or more", "NONNEGATIVE");
}
}  // namespace optrush
