#include "measure/memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <malloc.h>
#include <sys/resource.h>

#include <atomic>
#include <cstring>

#include "optrush/error.h"
#ifdef OPTRUSH_HAS_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace optrush {
namespace {
/// Counts the bytes that tensors ask for. The size stands in front of each block, so counting costs no second
/// allocation and no table.
class TrackingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, c10::Device(c10::kCPU)};
    auto* block = static_cast<char*>(c10::alloc_cpu(bytes + kHeader));
    std::memcpy(block, &bytes, sizeof(bytes));
    const int64_t now = current_.fetch_add(static_cast<int64_t>(bytes)) + static_cast<int64_t>(bytes);
    int64_t peak = peak_.load();
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
    char* data = block + kHeader;
    return {data, data, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* destination, const void* source, size_t count) const override {
    std::memcpy(destination, source, count);
  }
  int64_t current() const { return current_; }
  int64_t peak() const { return peak_; }
  void reset_peak() { peak_ = current_.load(); }

  static TrackingAllocator& instance() {
    static TrackingAllocator
        allocator;  // what LibTorch's allocator table points to; constant after installation
    return allocator;
  }

 private:
  static constexpr size_t kHeader = c10::gAlignment;
  static void release(void* data) {
    if (data == nullptr) return;
    char* block = static_cast<char*>(data) - kHeader;
    size_t bytes = 0;
    std::memcpy(&bytes, block, sizeof(bytes));
    instance().current_ -= static_cast<int64_t>(bytes);
    c10::free_cpu(block);
  }
  std::atomic<int64_t> current_{0}, peak_{0};
};
}  // namespace

void install_cpu_memory_tracking() {
  mallopt(M_MMAP_MAX, 0);  // the threshold for mmap can't be raised above 32 MiB, so it is switched off
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 << 20);
  c10::SetCPUAllocator(&TrackingAllocator::instance(), /*priority=*/1);
}

int64_t cpu_allocated() { return TrackingAllocator::instance().current(); }

void reset_memory_peak([[maybe_unused]] at::Device device) {
#ifdef OPTRUSH_HAS_CUDA
  if (device.is_cuda()) {
    c10::cuda::CUDACachingAllocator::resetPeakStats(device.index());
    return;
  }
#endif
  TrackingAllocator::instance().reset_peak();
}

MemoryPeak memory_peak([[maybe_unused]] at::Device device) {
#ifdef OPTRUSH_HAS_CUDA
  if (device.is_cuda()) {
    using c10::CachingAllocator::StatType;
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
    const auto aggregate = static_cast<size_t>(StatType::AGGREGATE);
    return {stats.allocated_bytes[aggregate].peak, stats.reserved_bytes[aggregate].peak};
  }
#endif
  return {TrackingAllocator::instance().peak(), std::nullopt};
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}
}  // namespace optrush
