#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "optrush/json.h"

namespace optrush {
/// Effect of a plugin on arithmetic. The gate compares by it (docs/internals/verdicts.md).
enum class Effect : uint8_t {
  exact,      ///< the same bits
  rounding,   ///< the same formula in another order
  precision,  ///< fewer bits
  batch,      ///< a different number of sequences per step
  model       ///< a different function, task or update rule, or different trainable parameters
};
std::string_view to_string(Effect);
std::vector<std::string> effect_names();
/// An Error names the effects.
Effect effect_from_string(std::string_view, const std::string& where);

/// One option of a plugin, as written in the plugin's description:
///   {"name": "rank", "type": "integer", "default": 8, "min": 1, "max": 1024, "doc": "rank r of the update"}
/// type: integer | number | string | boolean | list (of strings). `choices` limits a string or the items of a
/// list; `effects` lists choices with a stronger effect on arithmetic than the plugin's: {"bf16":
/// "precision"}.
struct OptionSchema {
  std::string name, type, doc;
  Json fallback;  ///< "default"; null: the option is required
  Json min, max;  ///< null: no limit
  std::vector<std::string> choices;
  std::map<std::string, Effect> effects = {};  ///< also for "true" or "false" of a boolean

  static OptionSchema parse(const Json&, const std::string& where);
};

/// Validated options of one use of a plugin: complete, typed, in range.
class Options {
 public:
  Options() = default;
  /// Checks `given` against the schema and fills in defaults. An Error has the option, the allowed values and
  /// the nearest name. `where` is the place in the user's script: "x.lua:12, plugin 'adapter'".
  Options(const std::vector<OptionSchema>&, const Json& given, const std::string& where);

  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  bool boolean(std::string_view name) const;
  std::string string(std::string_view name) const;
  std::vector<std::string> list(std::string_view name) const;
  const Json& json() const { return values_; }

 private:
  const Json& at(std::string_view name) const;
  Json values_ = Json::object();
};
}  // namespace optrush
