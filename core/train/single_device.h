#pragma once
#include <memory>

#include "optrush/data_parallel.h"
#include "optrush/run.h"

namespace optrush {
/// The plain DataParallel: every parameter is stored whole, or as the other mesh dimensions cut it. Gradients
/// are those of autograd.
std::unique_ptr<DataParallel> make_single_device(Run&);
}  // namespace optrush
