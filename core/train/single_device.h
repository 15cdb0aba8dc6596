#pragma once
#include <memory>

#include "optrush/data_parallel.h"
#include "optrush/run.h"

namespace optrush {
/// Every parameter whole on one device, or what other dimensions of the mesh leave of it; autograd's
/// gradients as they are.
std::unique_ptr<DataParallel> make_single_device(Run&);
}  // namespace optrush
