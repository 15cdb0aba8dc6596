#include "updates_beside.h"

namespace optrush::optimizer_in_backward {
void UpdatesBeside::run(const Tensor& gradient, const std::function<void()>& update) {
  if (in_flight_.size() == kInFlight) {
    stream_.join(in_flight_.front().done);
    in_flight_.pop_front();
  }
  in_flight_.push_back({.gradient = gradient});
  stream_.run(update, in_flight_.back().done);
}

void UpdatesBeside::wait() {
  if (in_flight_.empty()) return;
  stream_.join(in_flight_.back().done);  // the other updates end before the last one
  in_flight_.clear();
}
}  // namespace optrush::optimizer_in_backward
