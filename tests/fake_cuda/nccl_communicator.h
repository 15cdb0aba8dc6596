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
  std::map<int, ncclDataType_t> sums;  ///< reductions that multiply first, by handle
  int next_sum = ncclNumOps;
  std::vector<fake_cuda::CallId> last;  ///< calls of one communicator run one after the other
  std::string error;
};

namespace fake_cuda {
/// Null, and a fault: there is no such communicator.
ncclComm* live(ncclComm_t comm, const char* where);
/// Said as a fault and kept for ncclGetLastError.
ncclResult_t refuse(ncclComm* comm, const std::string& where, const std::string& why,
                    ncclResult_t result = ncclInvalidArgument);
/// In a group waits are done at its end.
ncclResult_t now_or_at_group_end(std::function<ncclResult_t()> wait);
}  // namespace fake_cuda
