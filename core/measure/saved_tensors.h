#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "optrush/saved_tensors.h"

namespace optrush {
/// Counts the bytes that autograd keeps between forward and backward: each storage once, less the ones that
/// live anyway (parameters, the batch), and what was moved to another device than theirs. What a
/// recomputation saves again counts while it lives. Its peak is the activation memory that the recipe
/// implies, whatever is stacked on it.
class SavedTensorCount {
 public:
  /// Counts from now until stop() or destruction; one at a time in a process. `lives_anyway` tells of tensors
  /// that are made meanwhile.
  explicit SavedTensorCount(const Tensors& resident, std::function<bool(const Tensor&)> lives_anyway = {});
  ~SavedTensorCount();
  SavedTensorCount(const SavedTensorCount&) = delete;
  SavedTensorCount& operator=(const SavedTensorCount&) = delete;
  void stop();
  int64_t peak_bytes() const;
  class Ledger;

 private:
  std::shared_ptr<Ledger> ledger_;
  std::optional<SavedTensorScope> scope_;
};
}  // namespace optrush
