#pragma once
#include <memory>

#include "bucket_sums.h"
#include "optrush/advanced/data_parallel.h"
#include "optrush/run.h"

namespace optrush::ddp {
/// Whole parameters on every rank along Param::summed_over(); gradients lie in buckets, which are summed over
/// those ranks while the backward continues.
std::unique_ptr<DataParallel> make_replicated(Run&, const BucketOptions&);
}  // namespace optrush::ddp
