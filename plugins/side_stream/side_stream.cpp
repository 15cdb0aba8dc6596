#include "side_stream/side_stream.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "optrush/forecast.h"

namespace optrush {
namespace {
/// One stream of each urgency for the device of this process.
c10::Stream side_of(at::Device device, bool urgent) {
  const c10::impl::VirtualGuardImpl streams(device.type());
  if (urgent) {
    static const c10::Stream stream = streams.getStreamFromGlobalPool(device, /*isHighPriority=*/true);
    return stream;
  }
  static const c10::Stream stream = streams.getStreamFromGlobalPool(device, /*isHighPriority=*/false);
  return stream;
}
c10::Stream computing_on(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}
}  // namespace

void SideStream::run(const std::function<void()>& work, std::optional<c10::Event>& done) const {
  if (form_of(device_) == at::kCPU) return work();
  const c10::Stream beside = side_of(device_, urgent_);
  c10::Event ready(device_.type());
  ready.record(computing_on(device_));
  ready.block(beside);
  const c10::StreamGuard guard(beside);
  work();
  done.emplace(device_.type());
  done->record(beside);
}

void SideStream::join(const std::optional<c10::Event>& done) const {
  if (done) done->block(computing_on(device_));
}
}  // namespace optrush
