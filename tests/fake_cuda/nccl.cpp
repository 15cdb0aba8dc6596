// NCCL: communicators, and functions that are not collective.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <utility>

#include "api.h"
#include "device_memory.h"
#include "nccl_communicator.h"
#include "peers.h"
#include "settings.h"

using namespace fake_cuda;

namespace {
std::map<ncclComm*, std::unique_ptr<ncclComm>>& known_communicators() {
  static auto* const all = new std::map<ncclComm*, std::unique_ptr<ncclComm>>;
  return *all;
}
thread_local std::string last_text;

bool blocks(const ncclConfig_t* config) { return !config || config->blocking != 0; }

/// Waits until `come` is true or the time is over.
template <class Come>
bool holds_before_timeout(Come&& come) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(Settings::get().nccl_seconds);
  bool there = false;
  await([&] { return (there = come()) || std::chrono::steady_clock::now() > end; });
  return there;
}

ncclResult_t await_ranks(ncclComm* comm) {
  if (holds_before_timeout([&] { return RanksCalls::get().all_have_come(comm->name); })) return ncclSuccess;
  const Lock lock(mutex());
  return refuse(comm, "ncclCommInitRank",
                "not every rank of communicator " + comm->name + " came in " +
                    std::to_string(Settings::get().nccl_seconds) +
                    " s: " + RanksCalls::get().missing_ranks(comm->name),
                ncclSystemError);
}

ncclResult_t join(ncclComm_t* out, const std::string& name, int size, int rank, bool blocking) {
  ncclComm* comm = nullptr;
  {
    const Lock lock(mutex());
    *out = nullptr;
    if (size < 1 || rank < 0 || rank >= size)
      return refuse(nullptr, "ncclCommInitRank",
                    "rank " + std::to_string(rank) + " of " + std::to_string(size));
    auto made = std::make_unique<ncclComm>();
    made->name = name;
    made->rank = rank;
    made->size = size;
    made->device = present_device();
    made->blocking = blocking;
    *out = comm = made.get();
    known_communicators()[comm] = std::move(made);
    RanksCalls::get().join(name, size, rank, comm->device);
  }
  if (!comm->blocking) return ncclInProgress;
  return now_or_at_group_end([comm] { return await_ranks(comm); });
}

ncclResult_t await_calls(ncclComm* comm) {
  await([comm] {
    return std::ranges::all_of(comm->last, [](CallId id) { return RanksCalls::get().is_done(id); });
  });
  return ncclSuccess;
}

ncclResult_t forget(ncclComm* comm) {
  const Lock lock(mutex());
  known_communicators().erase(comm);
  return ncclSuccess;
}
}  // namespace

namespace fake_cuda {
ncclComm* live(ncclComm_t comm, const char* where) {
  if (known_communicators().contains(comm)) return comm;
  refuse(nullptr, where, "no such communicator, or destroyed already");
  return nullptr;
}
ncclResult_t refuse(ncclComm* comm, const std::string& where, const std::string& why, ncclResult_t result) {
  fault(cudaErrorInvalidValue, where, why);
  last_text = where + ": " + why;
  if (comm) comm->error = last_text;
  return result;
}
}  // namespace fake_cuda

FAKE_CUDA_API ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
FAKE_CUDA_API const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "internal error";
  }
}
FAKE_CUDA_API const char* ncclGetLastError(ncclComm_t comm) {
  const Lock lock(mutex());
  last_text = known_communicators().contains(comm) ? comm->error : last_text;
  return last_text.c_str();
}

FAKE_CUDA_API ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->internal, sizeof id->internal, "%08x", static_cast<unsigned>(random()));
  return ncclSuccess;
}
FAKE_CUDA_API ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                                  ncclConfig_t* config) {
  return join(comm, id.internal, size, rank, blocks(config));
}
FAKE_CUDA_API ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  return join(comm, id.internal, size, rank, true);
}
FAKE_CUDA_API ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int size, int rank, int ids,
                                                    ncclUniqueId* id, ncclConfig_t* config) {
  if (ids < 1) return refuse(nullptr, "ncclCommInitRankScalable", "no id is given");
  return join(comm, id->internal, size, rank, blocks(config));
}
FAKE_CUDA_API ncclResult_t ncclCommInitAll(ncclComm_t* comms, int size, const int* devices) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  const int before = present_device();
  for (int rank = 0; rank < size; ++rank) {
    if (set_device(devices ? devices[rank] : rank) != cudaSuccess)
      return refuse(nullptr, "ncclCommInitAll", "no such device", ncclUnhandledCudaError);
    join(&comms[rank], id.internal, size, rank, /*blocking=*/false);  // all ranks are in this process
    comms[rank]->blocking = true;
  }
  set_device(before);
  return ncclSuccess;
}
FAKE_CUDA_API ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t* out,
                                         ncclConfig_t* config) {
  ncclComm* comm = nullptr;
  uint64_t number = 0;
  *out = nullptr;
  {
    const Lock lock(mutex());
    comm = live(handle, "ncclCommSplit");
    if (!comm) return ncclInvalidArgument;
    number = comm->splits++;
    RanksCalls::get().split(comm->name, number, comm->rank, color, key);
  }
  std::vector<int> ranks;
  const bool said =
      holds_before_timeout([&] { return RanksCalls::get().all_said_their_split(comm->name, number); });
  if (!said) return refuse(comm, "ncclCommSplit", "not every rank of communicator " + comm->name + " came");
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  ranks = RanksCalls::get().parts_of_split(comm->name, number, color);
  const auto rank = static_cast<int>(std::ranges::find(ranks, comm->rank) - ranks.begin());
  const std::string name = comm->name + "." + std::to_string(number) + "." + std::to_string(color);
  return join(out, name, static_cast<int>(ranks.size()), rank, blocks(config));
}

FAKE_CUDA_API ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  ncclComm* comm = nullptr;
  {
    const Lock lock(mutex());
    comm = live(handle, "ncclCommFinalize");
    if (!comm) return ncclInvalidArgument;
    if (std::exchange(comm->finalized, true))
      return refuse(comm, "ncclCommFinalize", "finalized already", ncclInvalidUsage);
  }
  return await_calls(comm);
}
FAKE_CUDA_API ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  ncclComm* comm = nullptr;
  {
    const Lock lock(mutex());
    comm = live(handle, "ncclCommDestroy");
    if (!comm) return ncclInvalidArgument;
  }
  await_calls(comm);
  return forget(comm);
}
FAKE_CUDA_API ncclResult_t ncclCommAbort(ncclComm_t handle) {
  const Lock lock(mutex());
  ncclComm* comm = live(handle, "ncclCommAbort");
  if (!comm) return ncclInvalidArgument;
  RanksCalls::get().abort(comm->name);
  return forget(comm);
}
FAKE_CUDA_API ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  const Lock lock(mutex());
  const ncclComm* comm = live(handle, "ncclCommGetAsyncError");
  if (!comm) return ncclInvalidArgument;
  RanksCalls& calls = RanksCalls::get();
  const bool waits = std::ranges::any_of(comm->last, [&](CallId id) { return !calls.is_done(id); });
  *error = !calls.all_have_come(comm->name)             ? ncclInProgress
           : waits && calls.has_lost_a_rank(comm->name) ? ncclRemoteError
                                                        : ncclSuccess;
  return ncclSuccess;
}
FAKE_CUDA_API ncclResult_t ncclCommCount(ncclComm_t handle, int* count) {
  const Lock lock(mutex());
  const ncclComm* comm = live(handle, "ncclCommCount");
  if (!comm) return ncclInvalidArgument;
  *count = comm->size;
  return ncclSuccess;
}
FAKE_CUDA_API ncclResult_t ncclCommUserRank(ncclComm_t handle, int* rank) {
  const Lock lock(mutex());
  const ncclComm* comm = live(handle, "ncclCommUserRank");
  if (!comm) return ncclInvalidArgument;
  *rank = comm->rank;
  return ncclSuccess;
}
FAKE_CUDA_API ncclResult_t ncclCommCuDevice(ncclComm_t handle, int* device) {
  const Lock lock(mutex());
  const ncclComm* comm = live(handle, "ncclCommCuDevice");
  if (!comm) return ncclInvalidArgument;
  *device = comm->device;
  return ncclSuccess;
}

FAKE_CUDA_API ncclResult_t ncclMemAlloc(void** p, size_t bytes) {
  return cudaMalloc(p, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
FAKE_CUDA_API ncclResult_t ncclMemFree(void* p) {
  return cudaFree(p) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
FAKE_CUDA_API ncclResult_t ncclCommRegister(ncclComm_t handle, void* p, size_t bytes, void** registered) {
  const Lock lock(mutex());
  ncclComm* comm = live(handle, "ncclCommRegister");
  if (!comm) return ncclInvalidArgument;
  const auto address = reinterpret_cast<uint64_t>(p);
  const Allocation a = allocation_at(address);
  if (!a || address + bytes > a.address + a.bytes)
    return refuse(comm, "ncclCommRegister", "the memory is not inside an allocation");
  *registered = p;
  return ncclSuccess;
}
FAKE_CUDA_API ncclResult_t ncclCommDeregister(ncclComm_t, void*) { return ncclSuccess; }
