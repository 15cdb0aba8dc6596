#pragma once
#include <hwy/targets.h>

#include <cstdint>

namespace optrush::testing {
/// Selects the instruction set of Highway's kernels during its lifetime.
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
