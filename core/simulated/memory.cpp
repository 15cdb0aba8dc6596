// The device's allocator, which counts memory and allocates none.
#include <ATen/Context.h>
#include <c10/core/CPUAllocator.h>

#include <memory>
#include <mutex>
#include <utility>

#include "gpu/architecture.h"
#include "optrush/forecast.h"
#include "optrush/gpu_kernel.h"
#include "simulated/state.h"

namespace optrush::simulated {
namespace {
/// An allocated block.
struct Block {
  explicit Block(size_t bytes) : bytes(static_cast<int64_t>(bytes)), ledger(State::instance().ledger) {
    address = ledger->take(this->bytes, current_stream());
  }
  ~Block() { ledger->give_back(bytes, address); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  int64_t bytes, address = 0;
  std::shared_ptr<Ledger> ledger;  ///< the ledger that counts it, also after the device was opened again
};

class DeviceAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    auto block = std::make_unique<Block>(bytes);
    return {nullptr, block.release(), &release, kDevice};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, size_t) const override {}

 private:
  static void release(void* block) { const std::unique_ptr<Block> ended(static_cast<Block*>(block)); }
};
}  // namespace

State& State::instance() {
  static auto* const state = new State;  // NOLINT: tensors outlive static destruction
  return *state;
}

c10::Allocator& allocator() {
  static auto* const made = new DeviceAllocator;  // NOLINT: as above
  return *made;
}

void register_device() {
  static std::once_flag once;
  std::call_once(once, [] {
    c10::register_privateuse1_backend("simulated");
    c10::SetAllocator(c10::kPrivateUse1, &allocator());
    register_hooks();
    register_kernels();
    register_autocast();
    at::globalContext().lazyInitDevice(c10::kPrivateUse1);
  });
}

at::Device open(Form form) {
  register_device();
  State& state = State::instance();
  state.form = std::move(form);
  state.ledger = std::make_shared<Ledger>(state.form);
  return kDevice;
}

const Form& form() { return State::instance().form; }
Memory allocated() { return State::instance().ledger->use().now; }
Memory peak() { return State::instance().ledger->use().peak; }
int64_t reserved() { return State::instance().ledger->use().reserved; }
int64_t peak_pinned() { return State::instance().ledger->use().peak_pinned; }
void reset_peak() { State::instance().ledger->reset_peak(); }
}  // namespace optrush::simulated

namespace optrush {
bool is_forecast(at::Device device) { return device.is_privateuseone(); }
bool is_forecast(const Tensor& tensor) { return is_forecast(tensor.device()); }

at::DeviceType form_of(at::Device device) {
  return device.is_privateuseone() ? simulated::form().type : device.type();
}
at::DeviceType form_of(const Tensor& tensor) { return form_of(tensor.device()); }

/// A plan knows the architecture of its GPU, which need not be present.
std::string gpu_architecture() {
  const simulated::Form& planned = simulated::form();
  return planned.type == at::kCUDA ? planned.architecture : current_architecture();
}
}  // namespace optrush
