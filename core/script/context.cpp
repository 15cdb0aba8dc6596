#include "script/context.h"

#include <algorithm>
#include <typeinfo>

#include "base/contains.h"
#include "base/suggest.h"
#include "base/text.h"
#include "spec/value.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
/// Adds a place to a plain Error. Derived classes have a meaning and are passed on.
template <class Body>
auto placed_at(const std::string& where, const Body& body) try {
  return body();
} catch (const Error& e) {
  if (typeid(e) == typeid(Error)) throw e.at(where);
  throw;
}
}  // namespace

ScriptContext::ScriptContext(const fs::path& script, ScriptHost& host, ScriptOptions options)
    : script_(fs::absolute(script).lexically_normal()), host_(host), options_(std::move(options)) {}

bool ScriptContext::is_given(const std::string& path) const {
  return std::ranges::any_of(
      given_texts_, [&](const std::string& text) { return path == text || path.starts_with(text + "/"); });
}

fs::path ScriptContext::resolve(const std::string& path) const {
  return ((is_given(path) ? fs::current_path() : script_.parent_path()) / path).lexically_normal();
}

std::string ScriptContext::start_of(const std::string& path) const {
  return is_given(path) ? "relative paths on the command line start at the working directory"
                        : "relative paths start at the script's folder";
}

const Catalogue& ScriptContext::catalogue() {
  if (!catalogue_) catalogue_ = Catalogue::find(options_.plugin_path);
  return *catalogue_;
}

Draft& ScriptContext::add(Draft draft) {
  drafts_.push_back(std::make_unique<Draft>(std::move(draft)));
  return *drafts_.back();
}

std::string ScriptContext::preset(const std::vector<std::string>& names) {
  asked_for_preset_ = true;
  if (options_.preset.empty()) return names.front();
  if (contains(names, options_.preset)) return options_.preset;
  return ask([&](ScriptHost&) -> std::string {
    throw UsageError(ErrorCode::unknown_name, "the script has no preset '" + options_.preset + "'",
                     did_you_mean(options_.preset, names), "--preset");
  });
}

Json ScriptContext::argument(const OptionSchema& schema) {
  Json value = schema.fallback;
  if (const auto given = options_.arguments.find(schema.name); given != options_.arguments.end())
    ask([&](ScriptHost&) {
      try {
        value = checked(schema, text_value(given->second, schema.type), "the argument " + schema.name,
                        "--arg " + schema.name + "=" + given->second);
        if (value.is_string() && value != "" && schema.choices.empty())
          given_texts_.insert(value.get<std::string>());
      } catch (const Error& e) {
        throw UsageError(e);
      }
    });
  if (const auto before = arguments_.find(schema.name); before != arguments_.end() && *before != value)
    throw Error(
        ErrorCode::conflict,
        "the argument " + schema.name + " was read before with a different default: " + before->dump(),
        "read it once, and keep the value in a local variable");
  arguments_[schema.name] = value;
  return value;
}

void ScriptContext::refuse_unknown_arguments() const {
  const auto names = texts_of(arguments_.items(), [](const auto& one) { return one.key(); });
  for (const auto& [name, text] : options_.arguments)
    if (!arguments_.contains(name))
      throw UsageError(
          ErrorCode::unknown_name, "the script has no argument '" + name + "'",
          names.empty() ? "it has no arguments; use --set to change settings" : did_you_mean(name, names),
          "--arg");
}

const Json& ScriptContext::gpu() {
  if (!gpu_) gpu_ = ask([](ScriptHost& host) { return host.gpu(); });
  return *gpu_;
}

const Json& ScriptContext::cpu() {
  if (!cpu_) cpu_ = ask([](ScriptHost& host) { return host.cpu(); });
  return *cpu_;
}

void ScriptContext::check_options() {
  if (!options_.preset.empty() && !asked_for_preset_)
    ask([](ScriptHost&) {
      throw UsageError(ErrorCode::unknown_name, "the script has no presets",
                       "leave out --preset; use --set to change settings", "--preset");
    });
  ask([&](ScriptHost&) { refuse_unknown_arguments(); });
}

fs::path ScriptContext::search(const Experiment& experiment, const SearchRequest& request,
                               const std::string& where) {
  check_options();
  return ask(
      [&](ScriptHost& host) { return placed_at(where, [&] { return host.search(experiment, request); }); });
}

fs::path ScriptContext::run(const Experiment& experiment, const std::string& where) {
  check_options();
  return ask([&](ScriptHost& host) { return placed_at(where, [&] { return host.run(experiment); }); });
}

void ScriptContext::report(const fs::path& folder) {
  ask([&](ScriptHost& host) { host.report(folder); });
}
}  // namespace optrush
