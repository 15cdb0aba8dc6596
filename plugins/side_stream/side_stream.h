#pragma once
#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <functional>
#include <optional>

namespace optrush {
/// A stream of a GPU beside the computing stream, which is the current stream of the calling thread. Without
/// streams, on a CPU, work runs in order with the computation.
///
/// Memory that the computing stream allocated must live until join(), because it is reused in the order of
/// the computing stream.
class SideStream {
 public:
  /// `urgent`: the GPU schedules this stream's kernels and copies before the computing stream's. Objects of a
  /// plugin with the same urgency share one stream of LibTorch's pool.
  SideStream(at::Device device, bool urgent) : device_(device), urgent_(urgent) {}

  /// Enqueues `work` after everything that the computing stream has so far. `done`: the event after it; none
  /// on a CPU.
  void run(const std::function<void()>& work, std::optional<c10::Event>& done) const;
  /// Later work of the computing stream waits for the event. The host does not wait.
  void join(const std::optional<c10::Event>& done) const;

 private:
  at::Device device_;
  bool urgent_;
};
}  // namespace optrush
