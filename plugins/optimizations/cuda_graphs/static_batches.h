#pragma once
#include "optrush/step.h"

namespace optrush::cuda_graphs {
/// The batches of the recorded step: a graph reads these addresses, so each later step copies its own there.
class StaticBatches {
 public:
  explicit StaticBatches(const Step&);
  /// An Error where the step is not one that the graph can run: other shapes, another number of micro-batches
  /// or of tokens that count, which is a constant of the graph.
  void copy_from(const Step&) const;

 private:
  std::vector<Batch> batches_;
};
}  // namespace optrush::cuda_graphs
