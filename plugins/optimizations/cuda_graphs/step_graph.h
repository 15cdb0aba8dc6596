#pragma once
#include <functional>
#include <memory>

#include "optrush/step.h"

namespace optrush::cuda_graphs {
/// Runs steps on a separate stream: first eagerly, then recorded once, then replayed.
class StepGraph {
 public:
  explicit StepGraph(at::Device);
  ~StepGraph();
  using Schedule = std::function<void(Step&)>;
  void run_eagerly(Step&, const Schedule&);
  /// Records the schedule's work for this step, and launches it.
  void record(Step&, const Schedule&);
  /// Launches the recorded step with the batches of this one.
  void replay(Step&);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};
}  // namespace optrush::cuda_graphs
