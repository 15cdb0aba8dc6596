// The only file that needs libtorch_cuda when it is linked (nccl.h).
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "distributed/nccl.h"

extern "C" [[gnu::visibility("default")]] void optrush_make_nccl(optrush::NcclRequest& request) {
  const auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = request.timeout;
  auto backend =
      c10::make_intrusive<c10d::ProcessGroupNCCL>(request.store, request.rank, request.size, options);
  if (request.use == optrush::NcclUse::collectives) {
    backend->setBoundDeviceId(
        request.device);  // the communicator is made now, and not at the first collective
    backend->eagerConnectSingleDevice(request.device);
  }
  request.made = backend;
}
