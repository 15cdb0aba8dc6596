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
/// State of one execution of a script; it outlives the Lua state.
class ScriptContext {
 public:
  ScriptContext(const std::filesystem::path& script, ScriptHost& host, ScriptOptions options);

  const std::filesystem::path& script() const { return script_; }
  const ScriptOptions& options() const { return options_; }
  /// Whether a path is the text of an --arg, or lies in the folder that this text names.
  bool is_given(const std::string& path) const;
  /// A path of the script, absolute: a relative one starts at the script's folder, a given one at the working
  /// directory.
  std::filesystem::path resolve(const std::string& path) const;
  /// Where that path starts, for the hint of an error.
  std::string start_of(const std::string& path) const;
  /// Read when a script first names a plugin: many scripts and tests name none.
  const Catalogue& catalogue();

  Draft& add(Draft draft);
  const std::vector<std::unique_ptr<Draft>>& drafts() const { return drafts_; }

  /// The choice of --preset among those of the script, the first of them where it was not given.
  std::string preset(const std::vector<std::string>& names);
  /// The value that --arg gives this argument of the script, else `fallback`.
  Json argument(const OptionSchema&);
  /// All that were asked for so far, with their values.
  const Json& arguments() const { return arguments_; }
  /// See ScriptHost; the GPU is asked for once.
  const Json& gpu();
  /// The CPU, the same.
  const Json& cpu();
  int64_t ranks(bool on_gpus);
  std::optional<int64_t> predicted_peak(const RunSpec&);
  std::optional<bool> holds(const RunSpec&, double memory_bytes);

  /// `where`: the experiment's line, which errors of the host that have no place are given.
  std::filesystem::path run(const Experiment&, const std::string& where);
  std::filesystem::path search(const Experiment&, const SearchRequest&, const std::string& where);
  void report(const std::filesystem::path& folder);

  /// The last error that a bound function raised, whole; Lua gets its text.
  std::optional<Error> last_error;
  /// Where the Lua error of this text came from, as luaL_traceback gives it.
  struct Traceback {
    std::string message, frames;
  } traceback;
  /// The exception of the host. A script cannot catch it with pcall.
  std::exception_ptr host_failure;
  /// Of Lua, executed so far; see limit_instructions().
  int64_t instructions = 0;
  /// The Lua state is being closed: finalizers still run, but what they make would never be collected.
  bool closing = false;
  /// Modules that are being loaded, outermost first.
  std::vector<std::string> loading;

 private:
  template <class Body>
  auto through_host(const Body& body);
  /// Before the first run: --preset or --arg give what the script does not ask for.
  void check_options();
  void refuse_unknown_arguments() const;

  std::filesystem::path script_;
  ScriptHost& host_;
  ScriptOptions options_;
  std::optional<Catalogue> catalogue_;
  std::optional<Json> gpu_, cpu_;
  bool asked_for_preset_ = false;
  Json arguments_ = Json::object();
  std::set<std::string> given_texts_;  ///< of --arg, where the script takes any text
  std::vector<std::unique_ptr<Draft>> drafts_;
};
}  // namespace optrush
