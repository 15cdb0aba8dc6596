#include "plugin_check/run_case.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <new>
#include <optional>
#include <string>

#include "optrush/error.h"
#include "plugin_check/cases.h"
#include "plugin_check/library_state.h"
#include "plugin_check/opening.h"
#include "simulated/device.h"
#include "spec/spec_json.h"
#include "train/run_setup.h"

namespace optrush {
namespace {
/// A stack with a plugin for several ranks. On one rank such a plugin changes nothing.
struct OnTwoRanks {
  /// whether the stack has such a plugin, which can be opened without the others
  bool asked = false;
  RunSpec spec = {};  ///< on two ranks, with a plugin that sums gradients if the stack needs one
  std::optional<Error> refusal = {};
};

constexpr int64_t kRanks = 2;

/// Why the plan of the stack fails; none if it does not, or only because this machine lacks something.
std::optional<Error> refusal_of_plan(RunSpec spec, const Catalogue& catalogue) {
  spec.train.world_size = kRanks;
  try {
    const at::Device device = simulated::open(at::kCPU);
    const auto session = RunSetup::open(spec, catalogue, device, Ranks::planned(0, kRanks));
    session->connect();
    session->declare();
    session->make_ready();
  } catch (const Skip&) {
  } catch (const Error& e) {
    return e;
  } catch (const c10::Error&) {  // an operator without a rule for sizes
  }
  return {};
}

/// Plans the stack on two ranks.
OnTwoRanks on_two_ranks(const CheckCase& c, const Catalogue& catalogue) {
  const auto for_several = [&](const PluginUse& use) { return catalogue.at(use.name).kind == "parallelism"; };
  RunSpec alone = c.spec;
  std::erase_if(alone.plugins, [&](const PluginUse& use) { return !for_several(use); });
  if (alone.plugins.empty()) return {};
  alone.data = {};
  RunSpec whole = c.spec;
  // A plugin that splits the data but does not sum gradients needs another one for that.
  if (refusal_of_plan(alone, catalogue)) {
    const auto helps = [&](const PluginDescription& other) {
      if (other.kind != "parallelism" || std::ranges::count(alone.plugins, other.name, &PluginUse::name) != 0)
        return false;
      RunSpec together = alone;
      together.plugins.push_back({other.name});
      return !refusal_of_plan(together, catalogue);
    };
    const auto other = std::ranges::find_if(catalogue.plugins(), helps);
    if (other == catalogue.plugins().end()) return {};
    whole.plugins.push_back({other->name});
  }
  whole.train.world_size = kRanks;
  return {true, whole, refusal_of_plan(whole, catalogue)};
}

bool all_for_several_ranks(const CheckCase& c, const Catalogue& catalogue) {
  return std::ranges::all_of(
      c.spec.plugins, [&](const PluginUse& use) { return catalogue.at(use.name).kind == "parallelism"; });
}

/// Whether the model is the decoder that has every slot, with or without a mixture of experts.
bool on_decoder(const CheckCase& c) {
  const SmallModel decoder = small_models().front();
  const Json fields = validate_model(decoder.kind, decoder.fields, "check");
  for (const auto& [name, value] : fields.items())
    if (name.find("expert") == std::string::npos && c.spec.model.value(name, Json()) != value) return false;
  return c.spec.model_kind == decoder.kind;
}

std::string checked(const CheckCase& c, const CheckContext& context, StackCheck& stacks) {
  if (c.kind == CheckKind::gradient) return check_gradients(c, context);
  if (c.kind == CheckKind::types) return check_types(c, context);
  if (c.kind == CheckKind::resume) return check_resume(c, context);
  std::string found = stacks.run(c);
  // While the simulated device is open, LibTorch treats it as the process's accelerator, and autograd does
  // not find the streams of a GPU.
  if (!context.device.is_cpu()) return found;
  const OnTwoRanks ranks = on_two_ranks(c, context.catalogue);
  const bool trains = all_for_several_ranks(c, context.catalogue);
  if (trains && (c.kind != CheckKind::alone || !on_decoder(c) || !ranks.asked)) return found;
  if (const auto& e = ranks.refusal) throw Refused(Error(e->code(), std::string("on 2 ranks: ") + e->what()));
  if (!trains) return found + (ranks.asked ? "; trained on 1 rank, only planned on 2" : "");
  CheckCase two = c;
  two.spec = ranks.spec;
  try {
    return found + "; on 2 ranks: " + stacks.run_on_two_ranks(two);
  } catch (const Skip&) {
    throw;
  } catch (const Error& e) {
    throw Error(e.code(), "on 2 ranks: " + e.message(),
                "compare the gradients of each rank with those of one process");
  }
}
}  // namespace

CaseEnd run_case(const CheckCase& c, const CheckContext& context, StackCheck& stacks) {
  if (!c.skip.empty()) return {CaseStatus::skipped, c.skip, c.skip_code};
  const LibraryState kept;
  try {
    std::string compared = checked(c, context, stacks);
    return {CaseStatus::ok, c.without_values ? "ran to its end; nothing was compared" : std::move(compared)};
  } catch (const Skip& e) {
    return ended_by(e, CaseStatus::skipped);
  } catch (const Refused& e) {
    return ended_by(e, CaseStatus::refused);
  } catch (const Error& e) {
    return ended_by(e, CaseStatus::failed);
  } catch (const std::bad_alloc&) {
    return {CaseStatus::failed, "the host is out of memory", ErrorCode::out_of_memory};
  } catch (const c10::OutOfMemoryError& e) {
    return {CaseStatus::failed, e.what_without_backtrace(), ErrorCode::out_of_memory};
  } catch (const c10::Error& e) {
    return {CaseStatus::failed, e.what_without_backtrace(), ErrorCode::internal};
  } catch (const std::exception& e) {
    return {CaseStatus::failed, e.what(), ErrorCode::internal};
  }
}
}  // namespace optrush
