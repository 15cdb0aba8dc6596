#pragma once
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <utility>

#include "optrush/torch_versions/at_least.h"

namespace optrush {
/// A node of autograd's graph, in the pointer by which LibTorch owns nodes. The graph frees it.
template <class Node, class... Arguments>
auto make_autograd_node(Arguments&&... arguments) {
#if OPTRUSH_TORCH_AT_LEAST(2, 13)
  return c10::make_intrusive<Node>(std::forward<Arguments>(arguments)...);
#else
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): deleteNode frees it without recursion
  return std::shared_ptr<Node>(new Node(std::forward<Arguments>(arguments)...), torch::autograd::deleteNode);
#endif
}
}  // namespace optrush
