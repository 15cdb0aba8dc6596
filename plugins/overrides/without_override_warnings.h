#pragma once
#include <c10/util/Exception.h>

namespace optrush {
/// Passes warnings on. Drops only LibTorch's warning that a kernel overrides one of LibTorch's kernels.
class WithoutOverrideWarnings final : public c10::WarningHandler {
 public:
  explicit WithoutOverrideWarnings(c10::WarningHandler& others) : others_(others) {}
  void process(const c10::Warning&) override;

 private:
  c10::WarningHandler& others_;
};
}  // namespace optrush
