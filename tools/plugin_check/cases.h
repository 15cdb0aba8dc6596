#pragma once
#include <string>
#include <vector>

#include "optrush/error_code.h"
#include "optrush/spec.h"
#include "plugin/description.h"
#include "plugin/needs.h"
#include "plugin_check/check_kind.h"
#include "spec/spec_json.h"

namespace optrush {
/// A case as plain data, which any process can run.
struct CheckCase {
  std::string id;  ///< "pair: mine(rank=4) + other"
  CheckKind kind = CheckKind::alone;
  /// The plugins to check; other plugins of the stack only accompany them
  std::vector<std::string> subjects;
  RunSpec spec;      ///< a small model, a few steps, the stack and the device
  std::string skip;  ///< why it can't run on this machine; empty: it can
  ErrorCode skip_code = ErrorCode::missing_requirement;  ///< code of `skip`
  bool without_values = false;  ///< nothing is compared, because the device computes nothing
};
Json to_json(const CheckCase&);
CheckCase check_case_from_json(const Json&, const std::string& where);
/// Whether no plugin of the stack has the effect `precision`.
bool keeps_its_bits(const CheckCase&, const Catalogue&);

/// Models that train in milliseconds. The decoder is first, because it has every slot.
struct SmallModel {
  std::string name, kind;
  Json fields;
  /// False for a single operator, which has no layers and gets other inputs if the micro-batch changes.
  bool has_layers = true;
  bool compiled = true;  ///< whether compiling plugins are checked on it
  /// Whether lower precision changes its gradients little. Not if norms follow attention and MLP, if caps
  /// flatten large scores, or if rounding sends a token to another expert. Plugins with that effect run on
  /// such a model without a comparison.
  bool well_conditioned = true;
};
std::vector<SmallModel> small_models();

struct CheckRequest {
  std::string device = "cpu";  ///< cpu or cuda
  /// Only cases with one of these plugins, with these options if there are any; empty: all
  std::vector<PluginUse> plugins;
  std::vector<CheckKind> kinds;  ///< empty: all
  std::vector<std::string> plugin_path;
  bool without_values = false;  ///< for each case
};

/// The cases for a catalogue, most informative first. Loads no plugin.
std::vector<CheckCase> check_cases(const CheckRequest&, const Catalogue&, const MachineOffer&);
}  // namespace optrush
