#include "check/run_case.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <new>
#include <optional>
#include <string>

#include "check/cases.h"
#include "check/library_state.h"
#include "check/opening.h"
#include "optrush/error.h"
#include "simulated/device.h"
#include "train/run_setup.h"

namespace optrush {
namespace {
/// Plans a stack with a plugin for several ranks on two ranks. A case trains on one rank, where such a plugin
/// changes nothing; the plan shows whether plugins refuse the stack.
struct OnTwoRanks {
  /// whether the stack has a plugin for several ranks that can be opened without the others
  bool asked = false;
  std::optional<Error> refusal = {};
};

constexpr int64_t kRanks = 2;

/// Why the plan of the stack fails; none if it does not, or only because this machine lacks something.
std::optional<Error> refusal_of_plan(RunSpec spec, const Catalogue& catalogue) {
  spec.train.world_size = kRanks;
  try {
    const at::Device device = simulated::open(simulated::Values::none, at::kCPU);
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

OnTwoRanks on_two_ranks(const CheckCase& c, const Catalogue& catalogue) {
  const auto for_several = [&](const PluginUse& use) { return catalogue.at(use.name).kind == "parallelism"; };
  RunSpec alone = c.spec;
  std::erase_if(alone.plugins, [&](const PluginUse& use) { return !for_several(use); });
  if (alone.plugins.empty() || alone.plugins.size() == c.spec.plugins.size()) return {};
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
  return {true, refusal_of_plan(whole, catalogue)};
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
  if (const auto& e = ranks.refusal) throw Refused(Error(e->code(), std::string("on 2 ranks: ") + e->what()));
  return found + (ranks.asked ? "; trained on 1 rank, only planned on 2" : "");
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
