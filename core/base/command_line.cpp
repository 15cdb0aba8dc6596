#include "base/command_line.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <regex>

#include "base/contains.h"
#include "base/suggest.h"
#include "base/text.h"
#include "optrush/error.h"

namespace optrush {
namespace {
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* option : app.get_options())
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

/// Rewrites CLI11's "Could not convert: --within = 3%" with the option's type; other texts stay.
std::string not_a_number(const CLI::App& command, const std::string& text) {
  constexpr std::string_view kStart = "Could not convert: ", kEquals = " = ";
  const size_t equals = text.find(kEquals);
  if (!text.starts_with(kStart) || equals == std::string::npos) return text;
  const std::string name = text.substr(kStart.size(), equals - kStart.size());
  const auto* option = command.get_option_no_throw(name);
  const bool whole = option != nullptr && option->get_type_name().find("INT") != std::string::npos;
  return name + " must be a " + (whole ? "whole number" : "number") + ", but is '" +
         text.substr(equals + kEquals.size()) + "'";
}

/// Rewrites CLI11's "--out: Directory does not exist: x" and "--to: x not in {a,b}"; other texts stay.
std::string about_the_value(const std::string& text) {
  static const std::regex kMissing("^(\\S+): (File|Directory) does not exist: (.*)"),
      kOther("^(\\S+): (.*) not in \\{(.*)\\}$");
  std::smatch found;
  if (std::regex_match(text, found, kMissing))
    return found[1].str() + ": there is no " + (found[2] == "File" ? "file" : "folder") + " '" +
           found[3].str() + "'";
  if (!std::regex_match(text, found, kOther)) return text;
  return found[1].str() + " must be " + join(split(found[3].str(), ","), " or ") + ", but is '" +
         found[2].str() + "'";
}

/// CLI11's error in the words of this program, with the nearest name for an unknown one.
UsageError explain(const CLI::App& app, const CLI::ParseError& error) {
  const auto given = app.get_subcommands();
  const bool top = given.empty();
  const CLI::App& command = top ? app : *given.front();
  const std::string name = top ? app.get_name() : app.get_name() + " " + command.get_name();
  const std::string help = "see " + name + " --help";
  const auto unknown = app.remaining(true);
  if (unknown.empty()) {
    std::string text = about_the_value(not_a_number(command, error.what()));
    if (const size_t colon = text.find(": must be "); colon != std::string::npos) text.erase(colon, 1);
    return UsageError(text, help);
  }
  std::string word = unknown.front();
  if (!word.starts_with('-'))
    return top ? UsageError(ErrorCode::unknown_name, "there is no command '" + word + "'",
                            did_you_mean(word, texts_of(app.get_subcommands({}), &CLI::App::get_name)))
               : UsageError("'" + word + "' is an unexpected argument of " + name, help);
  word = word.substr(0, word.find('='));
  const std::vector<std::string> options = option_names(command);
  if (const std::string present(present_name(word)); contains(options, present))
    return UsageError(ErrorCode::unknown_name,
                      "the option '" + word + "' of " + name + " is now called '" + present + "'", help);
  const std::string best = nearest(word, options);
  return UsageError(ErrorCode::unknown_name, name + " has no option '" + word + "'",
                    best.empty() ? help : "did you mean '" + best + "'? Or " + help);
}
}  // namespace

void parse_command_line(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    app.exit(e);
  } catch (const CLI::ParseError& e) {
    throw explain(app, e);
  }
}

std::string as_typed(const std::string& text) {
  const char* typed = std::getenv("OPTRUSH_COMMAND");
  if (typed == nullptr) return text;
  static const std::regex kCommand(
      R"((^|[^-\w./])optrush (?=(bisect|check|compare|doctor|experiments|forward|mcp|new-plugin|plan-mesh|plugins|)"
      R"(referee|report|run|sdk|stubs|tokenize|weights|worker|COMMAND)\b))");
  return std::regex_replace(text, kCommand, std::string("$1") + typed + " ");
}
}  // namespace optrush
