#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "optrush/advanced/saved_tensors.h"

namespace optrush {
/// Counts the bytes that autograd keeps between forward and backward. Each storage counts once. Storages that
/// live anyway (parameters, the batch) and tensors that were moved to another device do not count. Tensors
/// that a recomputation saves again count while they live. The peak is the activation memory.
class SavedTensorCount {
 public:
  /// Counts until stop() or destruction. Only one may exist. `lives_anyway`: of tensors created meanwhile.
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
