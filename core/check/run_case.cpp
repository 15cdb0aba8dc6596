#include "check/run_case.h"

#include <c10/util/Exception.h>

#include "check/gradient_check.h"
#include "check/library_state.h"
#include "check/opening.h"
#include "check/ranks_check.h"
#include "check/resume_check.h"
#include "check/types_check.h"

namespace optrush {
namespace {
std::string checked(const CheckCase& c, at::Device device, StackCheck& stacks) {
  if (c.kind == CheckKind::gradient) return check_gradients(c, device);
  if (c.kind == CheckKind::types) return check_types(c, device);
  if (c.kind == CheckKind::resume) return check_resume(c, device);
  const std::string found = stacks.run(c);
  const OnTwoRanks ranks = on_two_ranks(c);
  if (!ranks.refusal.empty()) throw Refused(Error("on 2 ranks: " + ranks.refusal));
  return found + (ranks.asked ? "; trained on 1 rank, planned on 2" : "");
}
}  // namespace

CheckResult run_case(const CheckCase& c, at::Device device, StackCheck& stacks) {
  if (!c.skip.empty()) return {CaseStatus::skipped, c.skip};
  const LibraryState kept;
  try {
    return {CaseStatus::ok, checked(c, device, stacks)};
  } catch (const Skip& e) {
    return {CaseStatus::skipped, e.what()};
  } catch (const Refused& e) {
    return {CaseStatus::refused, e.what()};
  } catch (const c10::Error& e) {
    return {CaseStatus::failed, e.what_without_backtrace()};
  } catch (const std::exception& e) {
    return {CaseStatus::failed, e.what()};
  }
}
}  // namespace optrush
