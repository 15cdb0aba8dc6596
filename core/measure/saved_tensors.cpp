#include "measure/saved_tensors.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

namespace optrush {
class SavedTensorCount::Ledger {
 public:
  explicit Ledger(const Tensors& resident) {
    for (const auto& tensor : resident)
      if (tensor.defined()) resident_.insert(tensor.storage().unsafeGetStorageImpl());
  }
  /// The storage that was counted, or null.
  const void* add(const Tensor& tensor) {
    if (!tensor.has_storage()) return nullptr;
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
  std::map<const void*, std::pair<int64_t, int64_t>> live_;
  int64_t now_ = 0, peak_ = 0;
};

namespace {
using Ledger = SavedTensorCount::Ledger;

/// Keeps the tensor as autograd would, and its entry in the ledger for as long.
class CountingHooks final : public torch::autograd::SavedVariableHooks {
 public:
  explicit CountingHooks(std::shared_ptr<Ledger> ledger) : ledger_(std::move(ledger)) {}
  ~CountingHooks() override {
    if (counted_ != nullptr) ledger_->release(counted_);
  }
  CountingHooks(const CountingHooks&) = delete;
  CountingHooks& operator=(const CountingHooks&) = delete;
  void call_pack_hook(const Tensor& tensor) override {
    tensor_ = tensor;
    counted_ = ledger_->add(tensor);
  }
  Tensor call_unpack_hook() override { return tensor_; }

 private:
  std::shared_ptr<Ledger> ledger_;
  Tensor tensor_;
  const void* counted_ = nullptr;
};

/// LibTorch's engine with default hooks for saved tensors, which exist in Python only otherwise.
class Engine final : public torch::autograd::Engine {
 public:
  static Engine& instance() {
    static auto* engine = new Engine;  // as LibTorch's own: its threads outlive static destruction
    return *engine;
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    const std::lock_guard lock(mutex_);
    if (!ledger_) return nullptr;
    return std::make_unique<CountingHooks>(ledger_);
  }
  void count_into(std::shared_ptr<Ledger> ledger) {
    const std::lock_guard lock(mutex_);
    ledger_ = std::move(ledger);
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<Ledger> ledger_;
};
}  // namespace

SavedTensorCount::SavedTensorCount(const Tensors& resident) : ledger_(std::make_shared<Ledger>(resident)) {
  torch::autograd::set_default_engine_stub([]() -> torch::autograd::Engine& { return Engine::instance(); });
  Engine::instance().count_into(ledger_);
}
SavedTensorCount::~SavedTensorCount() { stop(); }
void SavedTensorCount::stop() { Engine::instance().count_into(nullptr); }
int64_t SavedTensorCount::peak_bytes() const { return ledger_->peak(); }
}  // namespace optrush
