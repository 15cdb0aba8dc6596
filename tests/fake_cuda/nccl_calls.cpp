// NCCL: collective calls. This file checks each call alone. ranks_calls.h checks it against other ranks.
// Nothing is sent.
#include <algorithm>
#include <cstring>
#include <utility>

#include "api.h"
#include "device_memory.h"
#include "nccl_communicator.h"
#include "peers.h"
#include "settings.h"
#include "work.h"

using namespace fake_cuda;

namespace {
constexpr size_t kMaxDeliveredBytes = 4096;  // largest known buffer whose bytes are delivered

struct Buffer {
  const void* p = nullptr;
  size_t elements = 0;
};
struct Queued {
  ncclComm* comm = nullptr;
  cudaStream_t stream = nullptr;
  Call call;
  std::vector<const void*> memory;
  Written written;
  Values values;
};
struct Group {
  int depth = 0;
  ncclResult_t result = ncclSuccess;
  std::vector<Queued> calls;
  std::vector<std::function<ncclResult_t()>> waits;
};
Group& group() {
  static thread_local Group group;
  return group;
}

struct Type {
  const char* name = nullptr;
  size_t bytes = 0;
};
Type type_of(ncclDataType_t type) {
  constexpr Type kTypes[] = {{"int8", 1},  {"uint8", 1},  {"int32", 4}, {"uint32", 4},
                             {"int64", 8}, {"uint64", 8}, {"fp16", 2},  {"fp32", 4},
                             {"fp64", 8},  {"bf16", 2},   {"e4m3", 1},  {"e5m2", 1}};
  return type >= 0 && type < ncclNumTypes ? kTypes[type] : Type{};
}

std::string wrong_memory(const ncclComm& comm, const void* p, size_t bytes) {
  if (bytes == 0) return "";
  const auto address = reinterpret_cast<uint64_t>(p);
  if (device_of(p) < 0) return is_pinned(p) ? "" : "memory of the host";
  const Allocation a = allocation_at(address);
  if (!a) return "freed device memory";
  if (device_of(p) != comm.device)
    return "memory of device " + std::to_string(device_of(p)) + ", and the communicator is of device " +
           std::to_string(comm.device);
  if (address + bytes > a.address + a.bytes) return "too small an allocation";
  return "";
}

/// In place is allowed if a rank's own part lies in the buffer of all ranks.
bool overlap_wrongly(const Call& call, int rank, Buffer in, Buffer out, size_t width) {
  const auto from = reinterpret_cast<uint64_t>(in.p), to = reinterpret_cast<uint64_t>(out.p);
  const bool apart = from + in.elements * width <= to || to + out.elements * width <= from;
  if (apart) return false;
  const uint64_t part = static_cast<uint64_t>(rank) * call.count * width;
  if (call.kind == "AllGather") return from != to + part;
  if (call.kind == "ReduceScatter") return to != from + part;
  return call.kind == "AlltoAll" || from != to;
}

/// The calls of a group begin together. Later work on the stream waits for all of them.
void issue_together(const std::vector<Queued>& calls) {
  std::vector<std::vector<CallId>> after(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    const Queued& queued = calls[i];
    after[i] = unfinished_calls(stream_of(queued.stream)->clock);
    std::ranges::copy_if(queued.comm->last, std::back_inserter(after[i]),
                         [](CallId id) { return !RanksCalls::get().is_done(id); });
    std::ranges::sort(after[i]);
    const auto same = std::ranges::unique(after[i]);
    after[i].erase(same.begin(), same.end());
  }
  for (const Queued& queued : calls) queued.comm->last.clear();
  std::vector<std::pair<const Stream*, CallId>> issued;
  for (size_t i = 0; i < calls.size(); ++i) {
    const Queued& queued = calls[i];
    const int before = present_device();
    set_device(queued.comm->device);
    const cudaError_t bad =
        library_call("nccl" + queued.call.text(), queued.stream, queued.memory, queued.written);
    set_device(before);
    if (bad != cudaSuccess) {
      group().result = ncclUnhandledCudaError;
      continue;
    }
    const Stream& stream = *stream_of(queued.stream);
    if (stream.capture) missing("NCCL in a capture");
    const CallId id =
        RanksCalls::get().call(queued.comm->name, queued.comm->rank, queued.call, after[i], queued.values);
    queued.comm->last.push_back(id);
    issued.emplace_back(&stream, id);
  }
  for (const auto& [stream, id] : issued) wait_for_peers(*stream, id);
}

ncclResult_t end_of_group() {
  Group& g = group();
  {
    const Lock lock(mutex());
    issue_together(std::exchange(g.calls, {}));
  }
  for (const auto& wait : std::exchange(g.waits, {}))
    if (const ncclResult_t bad = wait(); bad != ncclSuccess) g.result = bad;
  return std::exchange(g.result, ncclSuccess);
}

ncclResult_t enqueue(const Call& call, ncclComm_t handle, cudaStream_t stream, ncclDataType_t type, Buffer in,
                     Buffer out) {
  const Lock lock(mutex());
  const std::string where = "nccl" + call.kind;
  const auto wrong = [&](const std::string& why) {
    if (group().depth > 0) group().result = ncclInvalidArgument;
    return refuse(handle, where, why);
  };
  ncclComm* comm = live(handle, where.c_str());
  if (!comm) return ncclInvalidArgument;
  if (comm->finalized) return wrong("the communicator is finalized");
  const size_t width = type_of(type).bytes;
  if (width == 0) return wrong("no such type");
  if (call.peer >= comm->size)
    return wrong("rank " + std::to_string(call.peer) + " of " + std::to_string(comm->size));
  for (const auto& [buffer, what] : {std::pair{in, "what is sent"}, std::pair{out, "what arrives"}})
    if (const std::string why = wrong_memory(*comm, buffer.p, buffer.elements * width); !why.empty())
      return wrong(std::string(what) + " lies in " + why);
  if (in.elements > 0 && out.elements > 0 && overlap_wrongly(call, comm->rank, in, out, width))
    return wrong("what is sent overlaps what arrives");
  const int before = present_device();
  set_device(comm->device);  // the stream may be the default stream of this device
  const Stream* s = stream_of(stream);
  set_device(before);
  if (!s) return wrong("no such stream");
  if (s->device != comm->device)
    return wrong("the stream is of device " + std::to_string(s->device) + ", the communicator of device " +
                 std::to_string(comm->device));
  Queued queued{comm, stream, call, {}, {reinterpret_cast<uint64_t>(out.p), out.elements * width}, {}};
  if (in.elements > 0 && in.elements * width <= kMaxDeliveredBytes) {
    std::string& sent = queued.values.sent;
    sent.resize(in.elements * width);
    if (!read_known(sent.data(), reinterpret_cast<uint64_t>(in.p), sent.size())) sent.clear();
  }
  if (out.elements > 0 && out.elements * width <= kMaxDeliveredBytes * static_cast<size_t>(comm->size))
    queued.values.arrives_at = reinterpret_cast<uint64_t>(out.p);
  for (const Buffer& buffer : {in, out})
    if (buffer.elements > 0) queued.memory.push_back(buffer.p);
  group().calls.push_back(std::move(queued));
  return group().depth > 0 ? ncclSuccess : end_of_group();
}

/// Empty, with a fault, if the communicator has no such reduction for the type.
std::string reduction_of(ncclComm_t comm, ncclRedOp_t op, ncclDataType_t type) {
  constexpr const char* kNames[] = {"sum", "product", "max", "min", "mean"};
  const Lock lock(mutex());
  if (!live(comm, "NCCL")) return "";
  const bool eight_bits = type == ncclFloat8e4m3 || type == ncclFloat8e5m2;
  if (eight_bits && Settings::get().architecture.major < 9) {
    refuse(comm, "NCCL", "sums of float8 need sm_90 or newer");
    return "";
  }
  if (op < ncclNumOps) return kNames[op];
  const auto own = comm->sums.find(op);
  if (own != comm->sums.end() && own->second == type) return "scaled-sum";
  refuse(comm, "NCCL",
         own == comm->sums.end() ? "no such reduction, or destroyed already"
                                 : "the reduction is of another type");
  return "";
}
Call call_of(const char* kind, size_t count, ncclDataType_t type, std::string reduction = "-",
             int peer = -1) {
  const char* name = type_of(type).name;
  return {kind, count, name ? name : "?", std::move(reduction), peer};
}
size_t size_of(ncclComm_t comm) {
  const Lock lock(mutex());
  return live(comm, "NCCL") ? static_cast<size_t>(comm->size) : 0;
}
bool is_root(ncclComm_t comm, int root) {
  const Lock lock(mutex());
  return live(comm, "NCCL") && comm->rank == root;
}
}  // namespace

ncclResult_t fake_cuda::now_or_at_group_end(std::function<ncclResult_t()> wait) {
  if (group().depth == 0) return wait();
  group().waits.push_back(std::move(wait));
  return ncclSuccess;
}

FAKE_CUDA_API ncclResult_t ncclGroupStart() {
  ++group().depth;
  return ncclSuccess;
}
FAKE_CUDA_API ncclResult_t ncclGroupEnd() {
  if (group().depth == 0) return refuse(nullptr, "ncclGroupEnd", "no group has begun", ncclInvalidUsage);
  return --group().depth > 0 ? ncclSuccess : end_of_group();
}

FAKE_CUDA_API ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                                         ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const std::string reduction = reduction_of(comm, op, type);
  if (reduction.empty()) return ncclInvalidArgument;
  return enqueue(call_of("AllReduce", count, type, reduction), comm, stream, type, {in, count}, {out, count});
}
FAKE_CUDA_API ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                                      ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  const std::string reduction = reduction_of(comm, op, type);
  if (reduction.empty()) return ncclInvalidArgument;
  return enqueue(call_of("Reduce", count, type, reduction, root), comm, stream, type, {in, count},
                 {out, is_root(comm, root) ? count : 0});
}
FAKE_CUDA_API ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type,
                                             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const std::string reduction = reduction_of(comm, op, type);
  if (reduction.empty()) return ncclInvalidArgument;
  return enqueue(call_of("ReduceScatter", count, type, reduction), comm, stream, type,
                 {in, count * size_of(comm)}, {out, count});
}
FAKE_CUDA_API ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type,
                                         ncclComm_t comm, cudaStream_t stream) {
  return enqueue(call_of("AllGather", count, type), comm, stream, type, {in, count},
                 {out, count * size_of(comm)});
}
FAKE_CUDA_API ncclResult_t ncclAlltoAll(const void* in, void* out, size_t count, ncclDataType_t type,
                                        ncclComm_t comm, cudaStream_t stream) {
  const size_t all = count * size_of(comm);
  return enqueue(call_of("AlltoAll", count, type), comm, stream, type, {in, all}, {out, all});
}
FAKE_CUDA_API ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type,
                                         int root, ncclComm_t comm, cudaStream_t stream) {
  return enqueue(call_of("Broadcast", count, type, "-", root), comm, stream, type,
                 {in, is_root(comm, root) ? count : 0}, {out, count});
}
FAKE_CUDA_API ncclResult_t ncclBcast(void* p, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                                     cudaStream_t stream) {
  return ncclBroadcast(p, p, count, type, root, comm, stream);
}
FAKE_CUDA_API ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int peer,
                                    ncclComm_t comm, cudaStream_t stream) {
  return enqueue(call_of("Send", count, type, "-", peer), comm, stream, type, {in, count}, {});
}
FAKE_CUDA_API ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                    cudaStream_t stream) {
  return enqueue(call_of("Recv", count, type, "-", peer), comm, stream, type, {}, {out, count});
}

FAKE_CUDA_API ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                                    ncclScalarResidence_t residence, ncclComm_t handle) {
  const Lock lock(mutex());
  ncclComm* comm = live(handle, "ncclRedOpCreatePreMulSum");
  if (!comm) return ncclInvalidArgument;
  const bool on_host = residence == ncclScalarHostImmediate;
  const std::string why = on_host ? "" : wrong_memory(*comm, scalar, type_of(type).bytes);
  if (!why.empty() || (on_host && device_of(scalar) >= 0))
    return refuse(comm, "ncclRedOpCreatePreMulSum",
                  "the factor lies in " + (on_host ? "memory of a device" : why));
  *op = static_cast<ncclRedOp_t>(comm->next_sum);
  comm->sums[comm->next_sum++] = type;
  return ncclSuccess;
}
FAKE_CUDA_API ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t handle) {
  const Lock lock(mutex());
  ncclComm* comm = live(handle, "ncclRedOpDestroy");
  if (!comm) return ncclInvalidArgument;
  return comm->sums.erase(op) > 0
             ? ncclSuccess
             : refuse(comm, "ncclRedOpDestroy", "no such reduction, or destroyed already");
}
