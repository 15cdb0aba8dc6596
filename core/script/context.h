#pragma once
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "optrush/error.h"
#include "plugin/description.h"
#include "script/host.h"
#include "script/objects.h"

namespace optrush {
/// The state of one execution of a script. It outlives the Lua state.
class ScriptContext {
 public:
  ScriptContext(const std::filesystem::path& script, ScriptHost& host, ScriptOptions options);

  const std::filesystem::path& script() const { return script_; }
  const ScriptOptions& options() const { return options_; }
  /// The experiments that ship, beside the library. A copy of one finds its modules and programs there.
  std::filesystem::path experiments() const { return options_.library.parent_path() / "experiments"; }
  /// Whether a path is the text of an --arg, or is in the folder that this text names.
  bool is_given(const std::string& path) const;
  /// An absolute path: relative ones start at the script's folder, given ones at the working directory.
  std::filesystem::path resolve(const std::string& path) const;
  /// The folder where this path starts, for hints.
  std::string start_of(const std::string& path) const;
  /// The plugins. They are read when a script first names one, because many scripts name none.
  const Catalogue& catalogue();

  Draft& add(Draft draft);
  const std::vector<std::unique_ptr<Draft>>& drafts() const { return drafts_; }

  /// The choice of --preset among the script's presets; the first one by default.
  std::string preset(const std::vector<std::string>& names);
  /// The value of --arg for this argument of the script, otherwise `fallback`.
  Json argument(const OptionSchema&);
  /// The arguments that the script has read so far, with their values.
  const Json& arguments() const { return arguments_; }
  /// What the host answers. A script can't catch its exceptions.
  auto ask(auto&& question) {
    if (host_failure) std::rethrow_exception(host_failure);
    try {
      return question(host_);
    } catch (...) {
      host_failure = std::current_exception();
      throw;
    }
  }
  /// See ScriptHost. The host is asked for them only once.
  const Json& gpu();
  const Json& cpu();

  /// `where`: the experiment's line, for errors of the host that have no place.
  std::filesystem::path run(const Experiment&, const std::string& where);
  std::filesystem::path search(const Experiment&, const SearchRequest&, const std::string& where);
  void report(const std::filesystem::path& folder);

  /// The last error of a bound function with all its parts; Lua gets only its text.
  std::optional<Error> last_error;
  /// The traceback of the Lua error with this text, as luaL_traceback gives it.
  struct Traceback {
    std::string message, frames;
  } traceback;
  /// An exception of the host. A script can't catch it with pcall.
  std::exception_ptr host_failure;
  /// Lua instructions executed so far; see limit_instructions().
  int64_t instructions = 0;
  /// True while the Lua state is closed: objects that finalizers create would never be collected.
  bool closing = false;
  /// Modules that are being loaded, outermost first.
  std::vector<std::string> loading;

 private:
  /// Throws an Error if --preset or --arg set something that the script does not read.
  void check_options();
  void refuse_unknown_arguments() const;

  std::filesystem::path script_;
  ScriptHost& host_;
  ScriptOptions options_;
  std::optional<Catalogue> catalogue_;
  std::optional<Json> gpu_, cpu_;
  bool asked_for_preset_ = false;
  Json arguments_ = Json::object();
  std::set<std::string> given_texts_;  ///< texts of --arg, for arguments that accept any text
  std::vector<std::unique_ptr<Draft>> drafts_;
};
}  // namespace optrush
