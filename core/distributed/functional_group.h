#pragma once
#include <c10/util/intrusive_ptr.h>

#include <functional>

#include "optrush/tensor.h"

namespace c10d {
class ProcessGroup;
}

namespace optrush {
/// Callbacks for the collectives that compiled code starts.
struct FunctionalCalls {
  /// Called when an all-reduce of this tensor starts.
  std::function<void(const Tensor&)> begun;
  /// Called in place of each wait for such a collective of `bytes` bytes; must call `wait`.
  std::function<void(const std::function<void()>& wait, size_t bytes)> around_wait;
};

/// Wraps `inner` in a group for functional collectives of compiled code, which find it by name.
c10::intrusive_ptr<c10d::ProcessGroup> functional_group(c10::intrusive_ptr<c10d::ProcessGroup> inner,
                                                        FunctionalCalls);
}  // namespace optrush
