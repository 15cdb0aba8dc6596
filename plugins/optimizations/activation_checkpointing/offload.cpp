#include "offload.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <bit>

#include "optrush/error.h"
#include "optrush/forecast.h"
#include "origin.h"
#include "side_stream/side_stream.h"

namespace optrush::checkpointing {
namespace {
/// The whole storage as bytes.
Tensor as_bytes(const c10::Storage& storage, at::Device device) {
  return at::empty({0}, at::TensorOptions(at::kByte).device(device))
      .set_(storage, 0, {static_cast<int64_t>(storage.nbytes())}, {1});
}

/// The number of in-place writes so far; 0 for inference tensors, which autograd does not save.
uint32_t current(const c10::VariableVersion& version) {
  return version.enabled() ? version.current_version() : 0;
}

/// Sizes that add up to `bytes`: powers of two, and a rest of at most 1 MiB. LibTorch rounds each block of
/// pinned memory up to a power of two, so one block of a size just above one would take twice the memory.
std::vector<int64_t> pinned_blocks(int64_t bytes) {
  constexpr int64_t kRest = int64_t{1} << 20;
  std::vector<int64_t> sizes;
  for (; bytes > kRest; bytes -= sizes.back())
    sizes.push_back(static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes))));
  if (bytes > 0 || sizes.empty()) sizes.push_back(bytes);
  return sizes;
}
}  // namespace

/// One storage on the host, in one block or several.
class HostCopy {
 public:
  HostCopy(const c10::Storage& storage, at::Device device, std::weak_ptr<HostCopy> before)
      : beside_(device, /*urgent=*/true), device_(device), before_(std::move(before)) {
    const Tensor source = as_bytes(storage, device);
    const bool pinned = !device.is_cpu();
    for (const int64_t size : pinned ? pinned_blocks(source.numel()) : std::vector{source.numel()})
      host_.push_back(at::empty({size}, at::TensorOptions(at::kByte).pinned_memory(pinned)));
    beside_.run(
        [&] {
          for_each_block(source, [](const Tensor& host, const Tensor& part) { host.copy_(part, kAsync); });
        },
        out_);
    if (out_) source_ = source;
  }
  /// Memory is freed in the order of the computing stream, so that stream waits, not the host.
  ~HostCopy() {
    let_go();
    beside_.join(in_);
  }
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;

  const Tensor& first_block() const { return host_.front(); }
  /// Frees the device's memory after the enqueued work and the copy.
  void let_go() {
    if (!source_.defined()) return;
    beside_.join(out_);
    source_.reset();
  }
  /// Copies the storage back to the device, where it stays until its last saved tensor is freed.
  const c10::Storage& back() {
    fetch();
    beside_.join(in_);
    auto next = before_.lock();
    for (int ahead = 0; next && form_of(device_) != at::kCPU && ahead < kAhead;
         ++ahead, next = next->before_.lock())
      next->fetch();
    return fetched_.storage();
  }

 private:
  static constexpr int kAhead = 4;
  static constexpr bool kAsync = true;

  template <class Copy>
  void for_each_block(const Tensor& whole, const Copy& copy) const {
    int64_t begin = 0;
    for (const Tensor& host : host_) {
      copy(host, whole.narrow(0, begin, host.numel()));
      begin += host.numel();
    }
  }
  void fetch() {
    if (fetched_.defined()) return;
    int64_t bytes = 0;
    for (const Tensor& host : host_) bytes += host.numel();
    fetched_ = at::empty({bytes}, at::TensorOptions(at::kByte).device(device_));
    beside_.run(
        [&] {
          for_each_block(fetched_, [](const Tensor& host, const Tensor& part) { part.copy_(host, kAsync); });
        },
        in_);
  }

  SideStream beside_;
  at::Device device_;
  std::weak_ptr<HostCopy> before_;  ///< moved before this one, so the backward needs it later
  Tensor source_;                   ///< until it is copied to the host
  Tensors host_;                    ///< its bytes in order
  Tensor fetched_;
  std::optional<c10::Event> out_, in_;
};

std::shared_ptr<HostCopy> Offload::copy_of(const Tensor& tensor) {
  std::erase_if(copies_, [](const Entry& entry) { return entry.copy.expired(); });
  const c10::Storage& storage = tensor.storage();
  for (const auto& [known, copy] : copies_)
    if (known.lock().get() == storage.unsafeGetStorageImpl()) return copy.lock();
  auto copy = std::make_shared<HostCopy>(storage, tensor.device(), last_);
  copies_.push_back({c10::weak_intrusive_ptr(storage.getWeakStorageImpl()), copy});
  in_flight_.back().push_back(copy);
  last_ = copy;
  moved_ += static_cast<int64_t>(storage.nbytes());
  return copy;
}

void Offload::begin_block() {
  in_flight_.emplace_back();
  while (in_flight_.size() > kBlocksInFlight) {
    for (const auto& copy : in_flight_.front())
      if (const auto alive = copy.lock()) alive->let_go();
    in_flight_.pop_front();
  }
}

PackedTensor Offload::pack(const Tensor& tensor) {
  if (!tensor.has_storage() || lives_anyway(tensor)) return {tensor, [](const Tensor& kept) { return kept; }};
  // With hooks autograd does not compare versions. A write while the side stream copies would tear the copy.
  const c10::VariableVersion version = tensor.unsafeGetTensorImpl()->version_counter();
  auto copy = copy_of(tensor);
  const Tensor host = copy->first_block();
  return {host, [copy = std::move(copy), version, saved = current(version), sizes = tensor.sizes().vec(),
                 strides = tensor.strides().vec(), offset = tensor.storage_offset(),
                 options = tensor.options().requires_grad(false)](const Tensor&) {
            if (current(version) != saved)
              throw Error(ErrorCode::invalid_plugin,
                          "a saved tensor was changed in place, maybe while it was copied to the host",
                          "change a copy of it in the forward, or keep this block on the device");
            copy->let_go();
            return at::empty({0}, options).set_(copy->back(), offset, sizes, strides);
          }};
}
}  // namespace optrush::checkpointing
