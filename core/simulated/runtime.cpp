// Streams, events, pinned memory and generators of the device. Work is complete when it is enqueued, so
// events are always complete.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <iterator>
#include <map>
#include <memory>
#include <mutex>

#include "simulated/state.h"

namespace optrush::simulated {
namespace {
thread_local c10::StreamId stream_of_thread = 0;  // NOLINT: of the thread that calls

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

  c10::Stream getStream(c10::Device) const override { return stream(stream_of_thread); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return stream(1); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream(1); }
  c10::Stream exchangeStream(c10::Stream next) const override {
    const c10::Stream before = stream(stream_of_thread);
    stream_of_thread = next.id();
    return before;
  }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeDevice(c10::DeviceIndex) const override {}

  void record(void** event, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) *event = new char;
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    const std::unique_ptr<char> ended(static_cast<char*>(event));
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}

 private:
  static c10::Stream stream(c10::StreamId id) { return c10::Stream(c10::Stream::UNSAFE, kDevice, id); }
};
// Registered from the start, because LibTorch's engine counts devices at the first backward of a process.
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

/// Pinned host memory. Nothing writes to it, so its pages are reserved but never allocated.
class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, c10::Device(c10::kCPU)};
    void* data =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TORCH_CHECK(data != MAP_FAILED, "no address space for ", bytes, " bytes of pinned memory");
    const auto& ledger = State::instance().ledger;
    ledger->pin(static_cast<int64_t>(bytes));
    const std::lock_guard lock(mutex_);
    blocks_.emplace(static_cast<char*>(data), Pinned{bytes, ledger});
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
    return next != blocks_.begin() && at < std::prev(next)->first + std::prev(next)->second.bytes;
  }
  static PinnedAllocator& instance() {
    static auto* const made = new PinnedAllocator;  // NOLINT: tensors outlive static destruction
    return *made;
  }

 private:
  struct Pinned {
    size_t bytes;
    std::shared_ptr<Ledger> ledger;
  };
  static void release(void* data) {
    if (data == nullptr) return;
    Pinned pinned{};
    {
      const std::lock_guard lock(instance().mutex_);
      pinned = instance().blocks_.extract(static_cast<char*>(data)).mapped();
    }
    pinned.ledger->unpin(static_cast<int64_t>(pinned.bytes));
    munmap(data, pinned.bytes);
  }
  mutable std::mutex mutex_;
  std::map<char*, Pinned> blocks_;
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
  /// A CPU generator: it is seeded, but nothing draws from it.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override { return generator_; }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return at::detail::createCPUGenerator(); }
  at::Device getDeviceFromPtr(void*) const override { return kDevice; }
  bool isPinnedPtr(const void* data) const override { return PinnedAllocator::instance().holds(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return &PinnedAllocator::instance(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(allocator().allocate(bytes));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  }

 private:
  at::Generator generator_;
};
}  // namespace

c10::StreamId current_stream() { return stream_of_thread; }

void register_hooks() {
  at::RegisterPrivateUse1HooksInterface(new Hooks);  // NOLINT: LibTorch keeps it for ever
}
}  // namespace optrush::simulated
