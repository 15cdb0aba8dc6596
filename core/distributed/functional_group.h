#pragma once
#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <string>

#include "optrush/tensor.h"

namespace c10d {
class ProcessGroup;
}

namespace optrush {
/// The handler of collectives that compiled code starts.
struct FunctionalCalls {
  /// A sum of this tensor begins.
  std::function<void(const Tensor&)> begun;
  /// Around each wait for one, of so many bytes: calls the wait.
  std::function<void(const std::function<void()>& wait, size_t bytes)> around_wait;
};

/// A group under which the functional collectives of compiled code find `inner`: they know a name, and start
/// what they send themselves.
c10::intrusive_ptr<c10d::ProcessGroup> functional_group(c10::intrusive_ptr<c10d::ProcessGroup> inner,
                                                        FunctionalCalls);
}  // namespace optrush
