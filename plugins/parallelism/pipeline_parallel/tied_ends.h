#pragma once
#include <memory>
#include <vector>

#include "optrush/data_parallel.h"
#include "optrush/mesh.h"
#include "optrush/run.h"

namespace optrush::pipeline_parallel {
/// A parameter that the first and the last stage both use, as a tied embedding: each has a copy of it, or of
/// the same pieces, and its gradient is the sum of both ends'.
struct TiedParam {
  const Param* param = nullptr;
  int64_t first = 0, last = 0;  ///< ranks of the pipeline
};

/// `inner`, which owns parameters and gradients, and behind it the exchange of the tied ones' gradients.
/// Where this rank has none of them, `inner` itself.
std::unique_ptr<DataParallel> with_tied_ends(std::unique_ptr<DataParallel> inner, std::vector<TiedParam>,
                                             Run&);
}  // namespace optrush::pipeline_parallel
