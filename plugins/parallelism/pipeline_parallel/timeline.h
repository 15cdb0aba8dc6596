#pragma once
#include <cstdint>
#include <vector>

#include "order.h"

namespace optrush::pipeline_parallel {
/// How long a stage takes for a micro-batch, in any unit.
struct Costs {
  double forward = 1, backward = 2, weights = 0;
};
/// Equal stages of a model of matrix products: a backward is two forwards, one for inputs and one for
/// weights.
Costs usual_costs(const Shape&);

/// The output of a stage for the next one, or a gradient for the previous one.
struct Message {
  bool gradient = false;
  int64_t stage = 0;  ///< the stage that made it
  int64_t micro = 0;
  bool operator==(const Message&) const = default;
};

/// The orders of all ranks on one time axis, with no time for transfers. An Error if ranks would
/// deadlock.
class Timeline {
 public:
  explicit Timeline(const Shape&);
  Timeline(const Shape&, const Costs&);

  double length() const { return length_; }
  /// Part of the ranks' time in which they wait, 0 to 1.
  double bubble() const;
  /// All messages between two ranks, in order of the time at which they are made. Both ranks compute the same
  /// list. A rank that waits for a message has already made every message that it sends before that one.
  std::vector<Message> between(int64_t rank, int64_t other) const;
  /// The largest number of micro-batches whose forward a rank has computed and whose last backward it has
  /// not, summed over its chunks.
  int64_t in_flight(int64_t rank) const;

 private:
  struct Made {
    double time;
    Message message;
    int64_t from, to;
  };
  void run(const Costs&);

  Shape shape_;
  std::vector<std::vector<Action>> orders_;
  std::vector<Made> made_;
  double length_ = 0, busy_ = 0;
};
}  // namespace optrush::pipeline_parallel
