#pragma once
#include <hwy/targets.h>

#include <cstdint>

namespace optrush::testing {
/// Chooses the vectors for Highway's kernels, and lets them choose again at the end.
class InstructionSet {
 public:
  explicit InstructionSet(int64_t target) { choose(target); }
  ~InstructionSet() { choose(0); }
  InstructionSet(const InstructionSet&) = delete;
  InstructionSet& operator=(const InstructionSet&) = delete;

 private:
  static void choose(int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};
}  // namespace optrush::testing
