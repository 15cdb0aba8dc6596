#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "optrush/edit.h"
#include "optrush/json.h"
#include "optrush/options.h"
#include "optrush/spec.h"

namespace optrush {
/// One form in which `optrush check` runs a plugin: its options, plugins that are stacked with it, and the
/// kind of its data.
struct CheckedForm {
  Json options = Json::object();
  std::vector<std::string> with;
  std::string data = "random";  ///< or "documents", "preferences"
  std::string model = "dense";  ///< or "experts"
  /// Its backward has losses that the forward does not return: differences of the loss say nothing of it.
  bool losses_in_backward = false;
};

/// The description of a plugin in its ELF note `.note.optrush`, read without loading the file.
struct PluginDescription {
  std::filesystem::path file;
  int64_t api = 0;                                ///< plugin API version that it was built for
  std::string abi;                                ///< "gnu 12, cxx11abi 1, c++ 20, torch 2.11.0, cuda 13.0"
  std::string name, version, summary, doc, kind;  ///< kind: optimization | parallelism
  Effect effect = Effect::exact;                  ///< with any options
  std::vector<std::string> conflicts, requirements;  ///< names of other plugins
  std::vector<std::string> needs;                    ///< of the machine: plugin/needs.h
  std::vector<OptionSchema> options;
  std::vector<CheckedForm> checks;  ///< "check" of the description; without it, one form of defaults

  /// With options as given in a script: the widest of its own and those of what is chosen.
  Effect effect_with(const Json& given) const;
};

/// The API version and ABI tag of this build, to be compared with a plugin's.
int64_t host_api();
std::string host_abi();

/// Reads the note. Errors: not an ELF file, wrong machine, truncated, no note, a note that is not ours. Of a
/// plugin that was built for another API only api, abi, name and version are read.
PluginDescription read_description(const std::filesystem::path&);
/// The same from the text of a note: a line of JSON with api and abi, then the plugin's own JSON.
PluginDescription parse_description(const std::string& note, const std::filesystem::path& file);
/// Every difference between the plugin's build and this one in one Error: both sides and the cure.
void check_compatible(const PluginDescription&);

/// A plugin file, or a folder of them, that can't be used, and why.
struct Unusable {
  std::filesystem::path file;
  std::string reason;
};
/// Plugins found in `folders`, first folder first; of two with one name the first wins.
class Catalogue {
 public:
  /// Search order: given folders, OPTRUSH_PLUGIN_PATH, next to the executable (../plugins). Never the working
  /// directory.
  static Catalogue find(const std::vector<std::string>& folders);
  /// For the plugins of a run: empty where it has none, as nothing need be searched then.
  static Catalogue of(const RunSpec&);

  const std::vector<PluginDescription>& plugins() const { return plugins_; }
  const std::vector<Unusable>& unusable() const { return unusable_; }
  /// An Error names the nearest plugin, or why the file of that name is unusable.
  const PluginDescription& at(const std::string& name) const;

  /// An Error where one of these plugins is stacked twice, conflicts with another one or lacks one that it
  /// requires. The cure of a conflict takes off the one that is not `added`, if one of them is not.
  void check_stack(const std::vector<PluginUse>&, const std::vector<PluginUse>& added = {}) const;

 private:
  std::vector<PluginDescription> plugins_;
  std::vector<Unusable> unusable_;
};
}  // namespace optrush
