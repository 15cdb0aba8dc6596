#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace optrush {
/// Refuses a number unless it `holds`. `allowed`, for messages: "a number above 0"; `type`: for help texts.
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

/// An option with one value. `type`: of the value, for the help.
template <class Value>
CLI::Option* add_value(CLI::App& command, const std::string& name, Value& value, const std::string& type,
                       const std::string& description) {
  return command.add_option(name, value, description)->type_name(type);
}
/// An option that may be given several times, with one value each. `type`: of the value, for the help.
inline CLI::Option* add_repeated(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                                 const std::string& type, const std::string& description) {
  return command.add_option(name, values, description + "; may be repeated")
      ->take_all()
      ->expected(1)
      ->type_name(type);
}
inline void add_plugin_path(CLI::App& command, std::vector<std::string>& folders) {
  add_repeated(command, "--plugin-path", folders, "FOLDER", "search this folder for plugins first")
      ->check(CLI::ExistingDirectory);
}
}  // namespace optrush
