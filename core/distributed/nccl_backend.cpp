// The only file that needs libtorch_cuda when it is linked (backend.h).
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "distributed/backend.h"

extern "C" [[gnu::visibility("default")]] void optrush_make_nccl(optrush::NcclRequest& request) {
  const auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = request.timeout;
  auto backend =
      c10::make_intrusive<c10d::ProcessGroupNCCL>(request.store, request.rank, request.size, options);
  if (request.use == optrush::NcclRequest::Use::collectives) {
    backend->setBoundDeviceId(
        request.device);  // the communicator is made now, and not at the first collective
    backend->eagerConnectSingleDevice(request.device);
  }
  request.made = backend;
}
