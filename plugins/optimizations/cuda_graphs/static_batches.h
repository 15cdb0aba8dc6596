#pragma once
#include "optrush/step.h"

namespace optrush::cuda_graphs {
/// The recorded step's batches. The graph reads these addresses, so each later step copies its batches there.
class StaticBatches {
 public:
  explicit StaticBatches(const Step&);
  /// An Error if the graph cannot run the step: other shapes, another number of micro-batches, or another
  /// number of tokens that count, which is a constant of the graph.
  void copy_from(const Step&) const;

 private:
  std::vector<Batch> batches_;
};
}  // namespace optrush::cuda_graphs
