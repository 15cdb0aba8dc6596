#pragma once
#include <memory>
#include <vector>

#include "optrush/advanced/data_parallel.h"
#include "optrush/mesh.h"
#include "optrush/run.h"

namespace optrush::pipeline_parallel {
/// A parameter that the first and the last stage both use, such as a tied embedding. Each has a copy of it,
/// or of the same pieces. Its gradient is the sum of the gradients of both ends.
struct TiedParam {
  const Param* param = nullptr;
  int64_t first = 0, last = 0;  ///< ranks of the pipeline
};

/// Wraps `inner`, which owns parameters and gradients, and adds the exchange of the gradients of tied
/// parameters. Returns `inner` itself if this rank has none of them.
std::unique_ptr<DataParallel> with_tied_ends(std::unique_ptr<DataParallel> inner, std::vector<TiedParam>,
                                             Run&);
}  // namespace optrush::pipeline_parallel
