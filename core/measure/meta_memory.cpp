#include "measure/meta_memory.h"

#include <ATen/Functions.h>
#include <ATen/WrapDimUtils.h>
#include <c10/core/Allocator.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>

#include "optrush/tensor.h"

namespace optrush {
namespace {
struct Ledger {
  int64_t now = 0, peak = 0;
};

/// The bytes of one block, for as long as it lives.
struct Entry {
  Entry(Ledger& ledger, int64_t bytes) : ledger(ledger), bytes(bytes) {
    ledger.now += bytes;
    ledger.peak = std::max(ledger.peak, ledger.now);
  }
  ~Entry() { ledger.now -= bytes; }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  Ledger& ledger;
  int64_t bytes;
};

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    auto entry = std::make_unique<Entry>(ledger_, static_cast<int64_t>(bytes));
    return {nullptr, entry.release(), &release, c10::Device(c10::kMeta)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, size_t) const override {}
  Ledger& ledger() { return ledger_; }

  static CountingAllocator& instance() {
    static CountingAllocator allocator;  // what LibTorch's allocator table points to
    return allocator;
  }

 private:
  static void release(void* entry) { const std::unique_ptr<Entry> ended(static_cast<Entry*>(entry)); }
  Ledger ledger_;
};
/// Operators of an embedding, whose sizes LibTorch knows in Python alone.
Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index) {
  auto sizes = self.sizes().vec();
  sizes.at(static_cast<size_t>(at::maybe_wrap_dim(dim, self.dim()))) = index.numel();
  return at::empty(sizes, self.options());
}
Tensor embedding_dense_backward(const Tensor& gradient, const Tensor&, c10::SymInt rows, c10::SymInt, bool) {
  return at::empty({rows.expect_int(), gradient.size(-1)}, gradient.options());
}

void add_missing_operators() {
  static const auto library = [] {
    torch::Library made(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__);
    made.impl("index_select", index_select);
    made.impl("embedding_dense_backward", embedding_dense_backward);
    return made;
  }();
}
}  // namespace

MetaMemory::MetaMemory() {
  add_missing_operators();
  c10::SetAllocator(c10::kMeta, &CountingAllocator::instance(), /*priority=*/1);
  Ledger& ledger = CountingAllocator::instance().ledger();
  before_ = ledger.peak = ledger.now;
}
int64_t MetaMemory::peak() const { return CountingAllocator::instance().ledger().peak - before_; }
}  // namespace optrush
