#include "params/upload.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstring>

namespace optrush {
namespace {
constexpr int64_t kPiece = int64_t{32} << 20;  // bytes
constexpr int64_t kGrain = int64_t{1} << 20;   // bytes per thread

void copy_by_all_threads(char* to, const char* from, int64_t bytes) {
  at::parallel_for(0, bytes, kGrain, [&](int64_t first, int64_t last) {
    std::memcpy(to + first, from + first, static_cast<size_t>(last - first));
  });
}
}  // namespace

Tensor Upload::operator()(const Tensor& host) {
  if (host.is_meta()) return at::empty(host.sizes(), host.options().device(device_));
  if (!device_.is_cuda() || !host.is_cpu()) return host.to(device_);
  const Tensor whole = host.contiguous();
  Tensor there = times_.time("memory on the GPU",
                             [&] { return at::empty(whole.sizes(), whole.options().device(device_)); });
  const auto* from = static_cast<const char*>(whole.const_data_ptr());
  const Tensor to = there.view(-1).view(at::kByte);
  const int64_t bytes = to.numel();
  for (int64_t done = 0; done < bytes; done += kPiece) {
    const int64_t piece = std::min(kPiece, bytes - done);
    Buffer& buffer = buffers_[next_];
    next_ = (next_ + 1) % buffers_.size();
    if (buffer.read)
      times_.time("waits for copies to the GPU", [&] { buffer.read->synchronize(); });
    else
      times_.time("pinned memory", [&] {
        buffer.pinned = at::empty({kPiece}, at::TensorOptions(at::kByte).pinned_memory(true));
      });
    times_.time("copies to pinned memory", [&] {
      copy_by_all_threads(static_cast<char*>(buffer.pinned.mutable_data_ptr()), from + done, piece);
    });
    times_.time("starts of copies to the GPU", [&] {
      to.narrow(0, done, piece).copy_(buffer.pinned.narrow(0, 0, piece), /*non_blocking=*/true);
      buffer.read.emplace(at::kCUDA);
      buffer.read->record(c10::impl::VirtualGuardImpl(at::kCUDA).getStream(device_));
    });
  }
  return there;
}
}  // namespace optrush
