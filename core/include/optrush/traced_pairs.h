#pragma once
#include <vector>

#include "optrush/differentiable.h"

namespace optrush {
/// What a tracer has to know of the pairs that the traced function calls. Lives on one thread around a trace:
/// each `call` is then a node `optrush::call(str pair, Tensor[] inputs) -> Tensor[]`, where `pair` is the
/// index of an entry. The halves are traced apart, so that a compiler keeps the backward that was written.
class TracedPairs {
 public:
  struct Entry {
    const Differentiable* op = nullptr;
    Tensors inputs;  ///< of this call
  };
  TracedPairs();
  ~TracedPairs();
  TracedPairs(const TracedPairs&) = delete;
  TracedPairs& operator=(const TracedPairs&) = delete;
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  friend Tensors call(const Differentiable&, Tensors);
  std::vector<Entry> entries_;
  TracedPairs* outer_;
};
}  // namespace optrush
