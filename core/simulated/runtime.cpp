// Streams, events, pinned memory and generators of the device. Work is done when it is enqueued, so events
// are always complete; what a GPU would make the host wait for is counted.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "simulated/state.h"

namespace optrush::simulated {
namespace {
thread_local c10::StreamId current_stream = 0;  // NOLINT: of the thread that calls

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  explicit Guard(c10::DeviceType) {}
  Guard() = default;
  c10::DeviceType type() const override { return c10::kPrivateUse1; }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  c10::Stream getStream(c10::Device) const override { return stream(current_stream); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return stream(1); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream(1); }
  c10::Stream exchangeStream(c10::Stream next) const override {
    const c10::Stream before = stream(current_stream);
    current_stream = next.id();
    return before;
  }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override { ++State::instance().waits; }
  void synchronizeDevice(c10::DeviceIndex) const override { ++State::instance().waits; }

  void record(void** event, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) *event = new char;
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    const std::unique_ptr<char> ended(static_cast<char*>(event));
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override { ++State::instance().waits; }

 private:
  static c10::Stream stream(c10::StreamId id) { return c10::Stream(c10::Stream::UNSAFE, kDevice, id); }
};
// LibTorch's engine counts devices at the first backward of a process, so this is there from the start.
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

/// Host memory that copies need not stage.
class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes == 0 ? nullptr : c10::alloc_cpu(bytes);
    const std::lock_guard lock(mutex_);
    if (data != nullptr) blocks_.emplace(static_cast<char*>(data), bytes);
    return {data, data, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t count) const override {
    default_copy_data(to, from, count);
  }
  bool holds(const void* data) const {
    const std::lock_guard lock(mutex_);
    const auto* at = static_cast<const char*>(data);
    auto next = blocks_.upper_bound(const_cast<char*>(at));
    return next != blocks_.begin() && at < std::prev(next)->first + std::prev(next)->second;
  }
  static PinnedAllocator& instance() {
    static auto* const made = new PinnedAllocator;  // NOLINT: tensors outlive static destruction
    return *made;
  }

 private:
  static void release(void* data) {
    if (data == nullptr) return;
    {
      const std::lock_guard lock(instance().mutex_);
      instance().blocks_.erase(static_cast<char*>(data));
    }
    c10::free_cpu(data);
  }
  mutable std::mutex mutex_;
  std::map<char*, size_t> blocks_;
};

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  Hooks() : generator_(at::detail::createCPUGenerator()) {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  /// The CPU's, as its kernels draw from it.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override { return generator_; }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return at::detail::createCPUGenerator(); }
  at::Device getDeviceFromPtr(void*) const override { return kDevice; }
  bool isPinnedPtr(const void* data) const override { return PinnedAllocator::instance().holds(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return &PinnedAllocator::instance(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    c10::DataPtr fresh = allocator().allocate(bytes);
    allocator().copy_data(fresh.get(), storage.data(), std::min(bytes, storage.nbytes()));
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(fresh));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  }

 private:
  at::Generator generator_;
};
}  // namespace

void register_hooks() {
  at::RegisterPrivateUse1HooksInterface(new Hooks);  // NOLINT: LibTorch keeps it for ever
}
}  // namespace optrush::simulated
