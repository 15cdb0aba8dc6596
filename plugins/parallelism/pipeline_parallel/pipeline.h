#pragma once
#include <map>
#include <optional>
#include <vector>

#include "deferred_weights.h"
#include "mail.h"
#include "optrush/run.h"
#include "optrush/step.h"
#include "order.h"

namespace optrush::pipeline_parallel {
/// One rank's part of the pipeline. It executes its actions in order, sends activations forward, and sends
/// gradients back.
class Pipeline {
 public:
  /// To be made after Event::mesh_initialized. `late`: null except for zero-bubble schedules.
  Pipeline(Run&, const Shape&, DeferredWeights* late);

  void step(Step&);

  /// Part of the time of forwards and backwards, from the first on any rank to the last, in which this rank
  /// was idle: median of the steps so far, in percent. Every rank must call this.
  double bubble_percent() const;

 private:
  void forward(Step&, const Action&);
  void backward(Step&, const Action&);
  /// Requires that the form of a boundary is known.
  void expect_traffic() const;
  int64_t next_rank() const { return (rank_ + 1) % shape_.ranks; }
  int64_t previous_rank() const { return (rank_ + shape_.ranks - 1) % shape_.ranks; }

  Run& run_;
  Shape shape_;
  int64_t rank_;
  std::vector<Action> order_;
  Mail mail_;
  DeferredWeights* late_;
  using Key = std::pair<int64_t, int64_t>;  ///< chunk and micro-batch
  std::map<Key, Tensor> outputs_;           ///< of forwards that have had no backward yet
  std::vector<double> lengths_, busy_;      ///< seconds of each step
};
}  // namespace optrush::pipeline_parallel
