#pragma once
#include <string>
#include <vector>

#include "optrush/error_code.h"
#include "optrush/spec.h"
#include "plugin/description.h"
#include "plugin/needs.h"
#include "spec/spec_json.h"

namespace optrush {
/// Kind of a case of `optrush check`.
enum class CheckKind : uint8_t {
  alone,     ///< a plugin trains as its plain form does
  gradient,  ///< the gradients with a plugin are the differences of its loss; so are those of its pairs
  types,     ///< the pairs of a plugin compute in each type what they compute in double
  resume,    ///< a run that goes on from its saved state makes the steps of one that was not interrupted
  compiled,  ///< as `alone` and `pair`, with a plugin that compiles at run time
  pair       ///< two plugins train together as their plain form does
};
std::string_view to_string(CheckKind);
std::vector<std::string> check_kind_names();

/// One case: plain data, which any process can run.
struct CheckCase {
  std::string id;  ///< "pair: mine(rank=4) + other"
  CheckKind kind = CheckKind::alone;
  std::vector<std::string> subjects;  ///< plugins that it is about; others of the stack only come with them
  RunSpec spec;                       ///< a small model, a few steps, the stack, the device
  std::string skip;                   ///< why it can't run here; empty: it can
  ErrorCode skip_code = ErrorCode::missing_requirement;  ///< where it can't
  bool without_values = false;                           ///< nothing is compared: the device computes nothing
};
Json to_json(const CheckCase&);
CheckCase check_case_from_json(const Json&, const std::string& where);

/// Models that train in milliseconds. The decoder comes first: it has every slot.
struct SmallModel {
  std::string name, kind;
  Json fields;
  /// An operator alone has none, and gets other inputs in micro-batches of another size.
  bool has_layers = true;
  bool compiled = true;  ///< whether plugins that compile are tried on it
  /// Whether fewer bits change its gradients little: not where norms follow attention and MLP, nor where caps
  /// flatten large scores, nor where rounding sends a token to another expert. Plugins of that effect run on
  /// it, and nothing is compared.
  bool well_conditioned = true;
};
std::vector<SmallModel> small_models();

struct CheckRequest {
  std::string device = "cpu";      ///< cpu or cuda
  std::vector<PluginUse> plugins;  ///< only cases about one of them, in these options if any; empty: all
  std::vector<CheckKind> kinds;    ///< empty: all
  std::vector<std::string> plugin_path;
  bool without_values = false;  ///< of each case
};

/// The cases that the catalogue makes, the most telling first. Loads no plugin.
std::vector<CheckCase> check_cases(const CheckRequest&, const Catalogue&, const MachineOffer&);
}  // namespace optrush
