#include "experiment/external.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "optrush/error.h"

namespace optrush {
Record<ProgramChange> record_of(const ProgramChange*) {
  using T = ProgramChange;
  return Record<T>::given("program")
      .field("rung", &T::rung, "rung that makes the change", {.required = true})
      .field("command", &T::command, "the program and its arguments, instead")
      .field("args", &T::args, "further arguments")
      .field("files", &T::files, "SHA-256 of each file, by path")
      .field("effect", &T::effect, "effect on arithmetic", {.choices = effect_names()});
}

Record<External> record_of(const External*) {
  using T = External;
  return Record<T>::given("external")
      .field("command", &T::command, "the program and its arguments", {.required = true})
      .field("folder", &T::folder, "working directory of the command")
      .field("preload", &T::preload, "libraries that the dynamic loader loads first (LD_PRELOAD)")
      .field("requirements", &T::requirements, "requirements file of the Python packages that it imports")
      .field("packages", &T::packages, "file with the system packages that it needs")
      .field("files", &T::files, "SHA-256 of each file, by path")
      .field("effect", &T::effect, "effect on arithmetic", {.choices = effect_names()})
      .field("interleave", &T::interleave, "whether it implements the protocol of interleaved runs",
             {.former = "turns"})
      .field("headline", &T::headline, "whether a headline may name it as the fastest program")
      .field("changes", &T::changes, "changes by the rungs that are stacked on it")
      .then([](const T& external) {
        if (external.command.empty()) throw Error(ErrorCode::invalid_value, "external.command is empty");
      });
}

const std::vector<std::string>& placeholders() {
  static const std::vector<std::string> all = {"{python}", "{spec}",   "{start}",      "{out}", "{metrics}",
                                               "{trace}",  "{worker}", "{world_size}", "{seed}"};
  return all;
}

std::string unknown_placeholder(const std::string& word) {
  const auto in_name = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (size_t open = 0; (open = word.find('{', open)) != std::string::npos; ++open) {
    size_t end = open + 1;
    while (end < word.size() && in_name(word[end])) ++end;
    const bool named = end > open + 1 && end < word.size() && word[end] == '}';
    if (!named || (open > 0 && word[open - 1] == '$')) continue;
    if (auto found = word.substr(open, end + 1 - open);
        std::ranges::find(placeholders(), found) == placeholders().end())
      return found;
  }
  return {};
}

std::vector<std::string> full_command(const External& external) {
  std::vector<std::string> words = external.command;
  for (const ProgramChange& change : external.changes)
    if (!change.command.empty()) words = change.command;
  for (const ProgramChange& change : external.changes)
    words.insert(words.end(), change.args.begin(), change.args.end());
  return words;
}

std::string program_name(const External& external) {
  const auto file = std::ranges::find_if(
      external.command, [&](const std::string& word) { return external.files.contains(word); });
  const std::string& word = file == external.command.end() ? external.command.front() : *file;
  return std::filesystem::path(word).filename();
}
}  // namespace optrush
