#pragma once
#include <c10/core/Event.h>

#include <deque>
#include <functional>
#include <optional>

#include "optrush/tensor.h"
#include "side_stream/side_stream.h"

namespace optrush::optimizer_in_backward {
/// Updates of parameters on a second stream of a GPU, beside the rest of the backward.
///
/// A gradient is kept until the computing stream has waited for its update. So its memory is reused in the
/// order of that stream, and the peak of a step does not depend on times, as it would with record_stream().
class UpdatesBeside {
 public:
  explicit UpdatesBeside(at::Device device) : stream_(device, /*urgent=*/false) {}
  ~UpdatesBeside() { wait(); }
  UpdatesBeside(const UpdatesBeside&) = delete;
  UpdatesBeside& operator=(const UpdatesBeside&) = delete;

  /// Enqueues the update of a parameter. It begins after the work that computes the gradient and the work
  /// that read the parameter. Waits for an earlier update if kInFlight gradients are kept.
  void run(const Tensor& gradient, const std::function<void()>& update);
  /// Later work of the computing stream begins after every update. Frees the kept gradients.
  void wait();

 private:
  /// About a block of a Llama. The update of a matrix takes much less time than the products of its layer.
  static constexpr size_t kInFlight = 8;
  struct InFlight {
    Tensor gradient;
    std::optional<c10::Event> done = {};
  };
  SideStream stream_;
  std::deque<InFlight> in_flight_;  ///< in the order of the updates
};
}  // namespace optrush::optimizer_in_backward
