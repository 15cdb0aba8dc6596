#include "plugin/description.h"

#include <algorithm>
#include <fstream>
#include <set>

#include "base/contains.h"
#include "base/files.h"
#include "base/text.h"
#include "build_info.h"
#include "optrush/host/abi.h"
#include "plugin/elf_note.h"
#include "plugin/needs.h"
#include "spec/record.h"
#include "spec/value.h"

namespace optrush {
namespace {
struct Identity {
  int64_t api = -1;
  std::string abi;
};

Record<Identity> record_of(const Identity*) {
  return Record<Identity>::given("identity")
      .field("api", &Identity::api, "version of the plugin interface of the build",
             {.required = true, .min = 0})
      .field("abi", &Identity::abi, "compiler, C++ library and standard, torch, CUDA, SDK headers",
             {.required = true});
}

void read_options(PluginDescription& plugin, const Json& json) {
  if (!json.is_array())
    throw Error(ErrorCode::invalid_plugin,
                "the description.options must be a list of option schemas, but is " + shown(json));
  std::set<std::string> seen;
  for (const auto& option : json) {
    plugin.options.push_back(OptionSchema::parse(option, {}));
    const std::string& name = plugin.options.back().name;
    if (!seen.insert(name).second)
      throw Error(ErrorCode::invalid_plugin, "option '" + name + "' is listed twice");
  }
}

void read_checks(PluginDescription& plugin, const Json& json) {
  if (!json.is_array() || json.empty())
    throw Error(ErrorCode::invalid_plugin,
                "the description.check must be a list of at least one form, but is " + shown(json));
  plugin.checks = record::taken<std::vector<CheckedForm>>(json, "check");
}
Json written_nowhere(const PluginDescription&) { return Json::array(); }
}  // namespace

static Record<CheckedForm> record_of(const CheckedForm*) {
  using T = CheckedForm;
  return Record<T>::given("check")
      .field("options", &T::options, "options of the plugin", {.type = "object"})
      .field("with", &T::with, "plugins to stack with it")
      .field("data", &T::data, "kind of the training data",
             {.choices = {"random", "documents", "preferences"}})
      .field(
          "model", &T::model,
          "kind of the decoder: with attention and MLPs, also wide, mixtures of experts, or Gated DeltaNet",
          {.choices = {"dense", "wide", "experts", "delta_net"}})
      .field("gradient", &T::gradient, "whether the backward is the derivative of the loss");
}

/// The fields of the plugin's part of the note.
static Record<PluginDescription> record_of(const PluginDescription*) {
  using T = PluginDescription;
  return Record<T>::given("the description")
      .field("name", &T::name, "name in scripts", {.required = true})
      .field("version", &T::version, "version of the plugin", {.required = true})
      .field("summary", &T::summary, "summary in one line", {.required = true})
      .field("doc", &T::doc, "further description")
      .field("kind", &T::kind, "kind of technique",
             {.required = true, .choices = {"optimization", "parallelism"}})
      .field("effect", &T::effect, "effect on arithmetic", {.required = true, .choices = effect_names()})
      .field("per_micro_batch", &T::per_micro_batch,
             "its loss depends on the sequences that share a micro-batch")
      .custom("options", {.doc = "option schemas"}, read_options, written_nowhere)
      .custom("check", {.doc = "forms that `optrush check` runs"}, read_checks, written_nowhere)
      .field("conflicts", &T::conflicts, "plugins that cannot be stacked with this one")
      .field("requires", &T::requirements, "plugins that must be stacked with this one")
      .field("provides", &T::provides, "plugins in whose place it meets the requirements of others")
      .field("needs", &T::needs, "requirements on the machine", {.choices = need_names()});
}

namespace {
PluginDescription of_this_api(const Json& json, const std::string& where) {
  PluginDescription plugin = fields_of<PluginDescription>().read(json, where);
  if (!is_name(plugin.name))
    throw Error(
        ErrorCode::invalid_plugin,
        "a plugin name must start with a lower-case letter and consist of lower-case letters, digits and "
        "'_', not '" +
            plugin.name + "'",
        {}, where);
  for (const CheckedForm& form : plugin.checks) Options(plugin.options, form.options, where + ", check");
  return plugin;
}

/// For another API version, reads only the fields that every version has.
PluginDescription of_another_api(const Json& json, const std::filesystem::path& file) {
  PluginDescription plugin;
  const auto text = [&](const char* key) {
    const auto it = json.find(key);
    return it != json.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  plugin.name = text("name");
  if (plugin.name.empty()) plugin.name = file.stem();
  plugin.version = text("version");
  return plugin;
}

/// Splits an ABI tag: {"compiler", "gnu 12"}, {"torch", "2.11.0"}, ... The first part is the compiler.
std::vector<std::pair<std::string, std::string>> parts_of(const std::string& abi) {
  std::vector<std::pair<std::string, std::string>> parts;
  for (const auto& part : split(abi, ", ")) {
    const size_t space = std::min(part.find(' '), part.size());
    if (parts.empty())
      parts.emplace_back("compiler", part);
    else
      parts.emplace_back(part.substr(0, space), part.substr(std::min(space + 1, part.size())));
  }
  return parts;
}

std::string label(const std::string& key) {
  if (key == "cxx11abi") return "libstdc++'s C++11 ABI";
  if (key == "c++") return "C++ standard";
  if (key == "sdk") return "headers of the SDK";
  return key;
}

std::vector<std::string> differences(const PluginDescription& plugin) {
  std::vector<std::string> lines;
  const auto compare = [&](const std::string& what, const std::string& theirs, const std::string& ours) {
    if (theirs != ours) lines.push_back(what + ": plugin " + theirs + ", this program " + ours);
  };
  compare("plugin API", std::to_string(plugin.api), std::to_string(host_api()));
  const auto value = [](const auto& parts, const std::string& key) -> std::string {
    for (const auto& [name, text] : parts)
      if (name == key) return text;
    return "none";
  };
  const auto theirs = parts_of(plugin.abi), ours = parts_of(host_abi());
  for (const auto& [key, text] : ours) compare(label(key), value(theirs, key), text);
  for (const auto& [key, text] : theirs)
    if (value(ours, key) == "none") compare(label(key), text, "none");
  return lines;
}
}  // namespace

std::string PluginDescription::type_of(const std::string& option) const {
  const auto found = std::ranges::find(options, option, &OptionSchema::name);
  return found == options.end() ? "" : found->type;
}

Effect PluginDescription::effect_with(const Json& given) const {
  const Json all = Options(options, given, "plugin '" + name + "'").json();
  Effect widest = effect;
  for (const OptionSchema& option : options) {
    const Json& value = all.at(option.name);
    for (const auto& [choice, further] : option.effects) {
      const bool chosen = value.is_array()     ? contains(value, Json(choice))
                          : value.is_boolean() ? value.get<bool>() == (choice == "true")
                                               : value == choice;
      if (chosen) widest = std::max(widest, further);
    }
  }
  return widest;
}

int64_t host_api() { return kPluginApi; }
std::string host_abi() { return OPTRUSH_ABI_OF(OPTRUSH_TORCH_VERSION, OPTRUSH_CUDA_VERSION); }

PluginDescription parse_description(const std::string& note, const std::filesystem::path& file) {
  const std::string where = file.string();
  const size_t line = std::min(note.find('\n'), note.size());
  const Identity identity = fields_of<Identity>().read(parse_json(note.substr(0, line), where), where);
  const Json json = parse_json(note.substr(std::min(line + 1, note.size())), where);
  PluginDescription plugin =
      identity.api == host_api() ? of_this_api(json, where) : of_another_api(json, file);
  plugin.file = file;
  plugin.api = identity.api;
  plugin.abi = identity.abi;
  return plugin;
}

PluginDescription read_description(const std::filesystem::path& file) {
  std::error_code unreadable;
  std::ifstream in;
  if (std::filesystem::is_regular_file(file, unreadable)) in.open(file, std::ios::binary);
  if (!in.is_open()) throw Error(ErrorCode::invalid_plugin, "cannot be read", {}, file.string());
  return parse_description(read_elf_note(in, file.string()), file);
}

void check_compatible(const PluginDescription& plugin) {
  const auto lines = differences(plugin);
  if (lines.empty()) return;
  throw Error(ErrorCode::invalid_plugin,
              "plugin '" + plugin.name + "' was built for a different host\n  " + join(lines, "\n  "),
              "rebuild it with optrush_add_plugin() against this build (docs/plugins/abi.md)",
              plugin.file.string());
}
}  // namespace optrush
