// NCCL's communicators in this process.
#pragma once
#include <nccl.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ranks_calls.h"

struct ncclComm {
  std::string name;
  int rank = 0, size = 1, device = 0;
  bool blocking = true, finalized = false;
  uint64_t splits = 0;
  std::map<int, ncclDataType_t> sums;  ///< reductions with a factor, by handle
  int next_sum = ncclNumOps;
  std::vector<fake_cuda::CallId> last;  ///< calls of a communicator run in order
  std::string error;
};

namespace fake_cuda {
/// Null, with a fault, if there is no such communicator.
ncclComm* live(ncclComm_t comm, const char* where);
/// Reports a fault and keeps it for ncclGetLastError.
ncclResult_t refuse(ncclComm* comm, const std::string& where, const std::string& why,
                    ncclResult_t result = ncclInvalidArgument);
/// Waits inside a group happen at its end.
ncclResult_t now_or_at_group_end(std::function<ncclResult_t()> wait);
}  // namespace fake_cuda
