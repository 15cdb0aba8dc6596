#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "optrush/edit.h"
#include "optrush/error.h"
#include "optrush/json.h"
#include "optrush/options.h"
#include "optrush/spec.h"

namespace optrush {
/// One form in which `optrush check` runs a plugin: its options, plugins beside it, and its data.
struct CheckedForm {
  Json options = Json::object();
  std::vector<std::string> with;
  std::string data = "random";  ///< "random", "documents" or "preferences"
  std::string model = "dense";  ///< "dense", "experts" or "delta_net"
  bool gradient = true;         ///< whether the backward is the derivative of the loss
};

/// The description of a plugin, from its ELF note `.note.optrush`. The file is not loaded.
struct PluginDescription {
  std::filesystem::path file;
  int64_t api = 0;                                ///< the plugin API version of its build
  std::string abi;                                ///< "gnu 12, cxx11abi 1, c++ 20, torch 2.11.0, cuda 13.0"
  std::string name, version, summary, doc, kind;  ///< kind: optimization | parallelism
  Effect effect = Effect::exact;                  ///< the effect without regard to options
  /// Its loss is not a sum over sequences, so the same batch in other micro-batches has another loss.
  bool per_micro_batch = false;
  std::vector<std::string> conflicts, requirements;  ///< names of other plugins
  std::vector<std::string> provides;                 ///< plugins in whose place it meets a requirement
  std::vector<std::string> needs;                    ///< requirements of the machine: plugin/needs.h
  std::vector<OptionSchema> options;
  std::vector<CheckedForm> checks;  ///< field "check"; without it, one form with default options

  /// The type of an option; "" if there is no such option.
  std::string type_of(const std::string& option) const;
  /// The effect with options from a script: the widest of `effect` and those of the chosen values.
  Effect effect_with(const Json& given) const;
};

/// The API version and ABI tag of this build, to compare with a plugin's.
int64_t host_api();
std::string host_abi();

/// Reads the note. Errors: not an ELF file, wrong machine, truncated, no note, or a foreign note. For another
/// API version, only api, abi, name and version are read.
PluginDescription read_description(const std::filesystem::path&);
/// The same from the text of a note: a line of JSON with api and abi, then the plugin's JSON.
PluginDescription parse_description(const std::string& note, const std::filesystem::path& file);
/// Throws an Error that lists every difference between the plugin's build and this one, with the remedy.
void check_compatible(const PluginDescription&);

/// A plugin file or folder that can't be used, and the reason.
struct Unusable {
  std::filesystem::path file;
  std::string reason;
};
/// The plugins in `folders`. If two have one name, the first wins.
class Catalogue {
 public:
  /// Searches the given folders, OPTRUSH_PLUGIN_PATH, and ../plugins of the executable.
  static Catalogue find(const std::vector<std::string>& folders);
  /// The catalogue for a run: empty if the run has no plugins, so nothing is searched.
  static Catalogue of(const RunSpec&);

  const std::vector<PluginDescription>& plugins() const { return plugins_; }
  const std::vector<Unusable>& unusable() const { return unusable_; }
  /// The plugin of this name. An Error names the nearest plugin, or why the file is unusable.
  const PluginDescription& at(const std::string& name) const;

  /// Throws an Error if a plugin is unknown, is stacked twice, conflicts with another, or lacks one that it
  /// requires. The remedy of a conflict removes the plugin that is not in `added`, if there is one.
  void check_stack(const std::vector<PluginUse>& stack, const std::vector<PluginUse>& added = {}) const {
    if (const auto errors = errors_of(stack, added); !errors.empty()) throw errors.front();
  }
  /// The same as a list.
  std::vector<Error> errors_of(const std::vector<PluginUse>&, const std::vector<PluginUse>& added = {}) const;

 private:
  std::vector<PluginDescription> plugins_;
  std::vector<Unusable> unusable_;
};

/// Parses a plugin with options from the command line: "mine:rank=8,modules=q_proj,v_proj". The plugin's
/// description gives the types. A part without '=' after a list continues the list.
PluginUse parse_plugin_argument(const std::string&, const Catalogue&);
}  // namespace optrush
