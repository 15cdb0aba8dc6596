#include "measure/saved_tensors.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

namespace optrush {
class SavedTensorCount::Ledger {
 public:
  explicit Ledger(const Tensors& resident) {
    for (const auto& tensor : resident) {
      if (!tensor.defined()) continue;
      resident_.insert(tensor.storage().unsafeGetStorageImpl());
      device_ = tensor.device();
    }
  }
  /// Counts the storage of a tensor. Returns it, or null if it was not counted.
  const void* add(const Tensor& tensor) {
    if (!tensor.has_storage() || (device_ && tensor.device() != *device_)) return nullptr;
    const void* storage = tensor.storage().unsafeGetStorageImpl();
    const std::lock_guard lock(mutex_);
    if (resident_.contains(storage)) return nullptr;
    auto& [users, bytes] = live_[storage];
    if (users++ == 0) {
      bytes = static_cast<int64_t>(tensor.storage().nbytes());
      now_ += bytes;
      peak_ = std::max(peak_, now_);
    }
    return storage;
  }
  void release(const void* storage) {
    if (storage == nullptr) return;
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(storage);
    if (--found->second.first > 0) return;
    now_ -= found->second.second;
    live_.erase(found);
  }
  int64_t peak() const { return peak_; }

 private:
  std::mutex mutex_;
  std::set<const void*> resident_;
  std::optional<at::Device> device_;
  std::map<const void*, std::pair<int64_t, int64_t>> live_;
  int64_t now_ = 0, peak_ = 0;
};

SavedTensorCount::SavedTensorCount(const Tensors& resident, std::function<bool(const Tensor&)> lives_anyway)
    : ledger_(std::make_shared<Ledger>(resident)) {
  scope_.emplace(
      [ledger = ledger_, lives_anyway = std::move(lives_anyway)](const Tensor& tensor) -> PackedTensor {
        if (lives_anyway && lives_anyway(tensor)) return {tensor, [](const Tensor& kept) { return kept; }};
        const std::shared_ptr<const void> entry = {
            ledger->add(tensor), [ledger](const void* storage) { ledger->release(storage); }};
        return {tensor, [entry](const Tensor& kept) { return kept; }};
      },
      SavedTensorScope::Reach::process);
}
SavedTensorCount::~SavedTensorCount() = default;
void SavedTensorCount::stop() { scope_.reset(); }
int64_t SavedTensorCount::peak_bytes() const { return ledger_->peak(); }
}  // namespace optrush
