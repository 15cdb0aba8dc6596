#pragma once
#include <memory>

#include "optrush/data_parallel.h"

namespace optrush {
/// Whole parameters on one device; one shard for each trainable one.
std::unique_ptr<DataParallel> make_single_device();
}  // namespace optrush
