// Planted faults of several ranks are reported by name, and correct ranks have no faults. Most ranks are
// devices of this process. Some are separate processes.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "fake_cuda.h"

namespace optrush::testing {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Before the first call.
const std::string log_file = "/tmp/fake_nccl_test." + std::to_string(getpid());
const bool chosen = setenv("FAKE_CUDA", "1", 1) == 0 && setenv("FAKE_CUDA_DEVICES", "4", 1) == 0 &&
                    setenv("FAKE_CUDA_NCCL_SECONDS", "1", 1) == 0 &&
                    setenv("FAKE_CUDA_NCCL", log_file.c_str(), 1) == 0;

std::string faults() {
  std::string text(fake_cuda_faults(nullptr, 0), '\0');
  fake_cuda_faults(text.data(), text.size());
  text.pop_back();
  return text;
}

/// A rank: a device with a stream and memory of 1 MiB.
struct Rank {
  int device;
  cudaStream_t stream{};
  float *in = nullptr, *out = nullptr;

  explicit Rank(int number) : device(number) {
    cudaSetDevice(device);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMalloc(reinterpret_cast<void**>(&in), 1 << 20);
    cudaMalloc(reinterpret_cast<void**>(&out), 1 << 20);
  }
};

class FakeNccl : public ::testing::Test {
 protected:
  void SetUp() override { fake_cuda_reset(); }
  void TearDown() override {
    fake_cuda_reset();  // because a process with faults fails
    cudaGetLastError();
    unlink(log_file.c_str());
  }
  /// A communicator of the ranks 0 to n - 1 on devices of these numbers.
  std::vector<ncclComm_t> communicator(int n) {
    while (static_cast<int>(ranks_.size()) < n) ranks_.emplace_back(static_cast<int>(ranks_.size()));
    std::vector<ncclComm_t> comms(static_cast<size_t>(n));
    EXPECT_EQ(ncclCommInitAll(comms.data(), n, nullptr), ncclSuccess);
    return comms;
  }
  Rank& at(size_t rank) { return ranks_[rank]; }
  ncclResult_t sum(ncclComm_t comm, size_t rank, size_t count = 1024, ncclDataType_t type = ncclFloat,
                   ncclRedOp_t op = ncclSum) {
    return ncclAllReduce(at(rank).in, at(rank).out, count, type, op, comm, at(rank).stream);
  }
  cudaError_t waits(size_t rank) {
    cudaSetDevice(at(rank).device);
    return cudaStreamSynchronize(at(rank).stream);
  }
  std::vector<Rank> ranks_;
};

TEST_F(FakeNccl, EveryCallOfCorrectRanks) {
  const auto c = communicator(2);
  for (size_t r = 0; r < 2; ++r) {
    Rank& a = at(r);
    EXPECT_EQ(sum(c[r], r), ncclSuccess);
    EXPECT_EQ(ncclAllGather(a.in, a.out, 16, ncclBfloat16, c[r], a.stream), ncclSuccess);
    EXPECT_EQ(ncclAllGather(a.out + 16 * r, a.out, 16, ncclFloat, c[r], a.stream), ncclSuccess) << "in place";
    EXPECT_EQ(ncclReduceScatter(a.in, a.in + 8 * r, 8, ncclFloat, ncclAvg, c[r], a.stream), ncclSuccess);
    EXPECT_EQ(ncclBroadcast(a.in, a.in, 8, ncclInt64, 1, c[r], a.stream), ncclSuccess);
    EXPECT_EQ(ncclBcast(a.in, 8, ncclInt64, 0, c[r], a.stream), ncclSuccess);
    EXPECT_EQ(ncclReduce(a.in, r == 1 ? a.out : nullptr, 8, ncclFloat, ncclMax, 1, c[r], a.stream),
              ncclSuccess);
    EXPECT_EQ(ncclAlltoAll(a.in, a.out, 8, ncclUint8, c[r], a.stream), ncclSuccess);
    const int other = static_cast<int>(1 - r);
    ncclGroupStart();
    EXPECT_EQ(ncclSend(a.in, 8, ncclFloat, other, c[r], a.stream), ncclSuccess);
    EXPECT_EQ(ncclRecv(a.out, 8, ncclFloat, other, c[r], a.stream), ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  }
  for (size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(waits(r), cudaSuccess);
    int size = 0, rank = 0;
    ncclCommCount(c[r], &size);
    ncclCommUserRank(c[r], &rank);
    EXPECT_EQ(size, 2);
    EXPECT_EQ(rank, static_cast<int>(r));
    EXPECT_EQ(ncclCommFinalize(c[r]), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(c[r]), ncclSuccess);
  }
  EXPECT_THAT(faults(), IsEmpty());
}

TEST_F(FakeNccl, CallCompletesWhenEveryRankHasMadeIt) {
  const auto c = communicator(2);
  sum(c[0], 0);
  cudaEvent_t done{};
  cudaSetDevice(0);
  cudaEventCreate(&done);
  cudaEventRecord(done, at(0).stream);
  EXPECT_EQ(cudaEventQuery(done), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(at(0).stream), cudaErrorNotReady);
  sum(c[1], 1);
  EXPECT_EQ(cudaEventQuery(done), cudaSuccess);
  EXPECT_EQ(waits(0), cudaSuccess);
  EXPECT_THAT(faults(), IsEmpty());
}

TEST_F(FakeNccl, MismatchedCounts) {
  const auto c = communicator(2);
  sum(c[0], 0, 1024);
  sum(c[1], 1, 1023);
  EXPECT_THAT(faults(), AllOf(HasSubstr("ranks differ: AllReduce 1023 fp32 sum (call 0 of communicator"),
                              HasSubstr("rank 1), AllReduce 1024 fp32 sum (call 0"), HasSubstr("rank 0)")));
  EXPECT_EQ(waits(0), cudaSuccess) << "the program continues, and the fault is reported at its end";
}

TEST_F(FakeNccl, MismatchedTypesReductionsRootsAndKinds) {
  for (int which = 0; which < 4; ++which) {
    fake_cuda_reset();
    const auto c = communicator(2);
    const auto& [a, b] = std::tie(at(0), at(1));
    if (which == 3)
      ncclAllGather(a.in, a.out, 8, ncclFloat, c[0], a.stream);
    else
      ncclReduce(a.in, a.out, 8, ncclFloat, ncclSum, 0, c[0], a.stream);
    ncclReduce(b.in, b.out, 8, which == 0 ? ncclBfloat16 : ncclFloat, which == 1 ? ncclMax : ncclSum,
               which == 2 ? 1 : 0, c[1], b.stream);
    EXPECT_THAT(faults(), HasSubstr("ranks differ")) << which;
  }
}

TEST_F(FakeNccl, MismatchedSendsAndReceives) {
  const auto c = communicator(3);
  ncclSend(at(0).in, 8, ncclFloat, 1, c[0], at(0).stream);
  ncclRecv(at(1).out, 9, ncclFloat, 0, c[1], at(1).stream);
  EXPECT_THAT(faults(), HasSubstr("Recv 9 fp32 from rank 0 (call 0 of communicator"));
  EXPECT_THAT(faults(), HasSubstr("Send 8 fp32 to rank 1"));

  fake_cuda_reset();
  const auto d = communicator(3);
  ncclSend(at(0).in, 8, ncclFloat, 1, d[0], at(0).stream);
  ncclRecv(at(1).out, 8, ncclFloat, 2, d[1], at(1).stream);
  EXPECT_EQ(waits(1), cudaSuccess);
  EXPECT_THAT(faults(), HasSubstr("Recv 8 fp32 from rank 2 (call 0 of communicator"));
  EXPECT_THAT(
      faults(),
      HasSubstr("waits for more than 1 s. rank 0 called Send 8 fp32 to rank 1 last; rank 1 called Recv 8 "
                "fp32 from rank 2 last; rank 2 has called nothing"));
}

TEST_F(FakeNccl, InvalidBuffers) {
  const auto c = communicator(2);
  std::vector<float> host(8);
  const auto gives = [&](const void* in, void* out, size_t count, const char* why) {
    fake_cuda_reset();
    EXPECT_EQ(ncclAllGather(in, out, count, ncclFloat, c[0], at(0).stream), ncclInvalidArgument);
    EXPECT_THAT(faults(), HasSubstr(why));
  };
  gives(host.data(), at(0).out, 8, "what is sent lies in memory of the host");
  gives(at(0).in, at(1).out, 8,
        "what arrives lies in memory of device 1, and the communicator is of device 0");
  gives(at(0).in, at(0).out, (1 << 20) / 4 + 1, "what arrives lies in too small an allocation");
  gives(at(0).out + 1, at(0).out, 8, "what is sent overlaps what arrives");
  float* freed = at(0).in;
  cudaFree(freed);
  gives(freed, at(0).out, 8, "what is sent lies in freed device memory");
  EXPECT_EQ(ncclAllReduce(at(0).out, at(0).out, 8, ncclFloat, ncclSum, c[0], at(0).stream), ncclSuccess)
      << "a refused call has no effect";
}

TEST_F(FakeNccl, StreamsOfAnotherDevice) {
  const auto c = communicator(2);
  EXPECT_EQ(ncclAllReduce(at(0).in, at(0).out, 8, ncclFloat, ncclSum, c[0], at(1).stream),
            ncclInvalidArgument);
  EXPECT_THAT(faults(), HasSubstr("the stream is of device 1, the communicator of device 0"));
}

TEST_F(FakeNccl, OrdersOfTwoCommunicatorsDeadlock) {
  const auto a = communicator(2), b = communicator(2);
  sum(a[0], 0, 11), sum(b[0], 0, 22);
  sum(b[1], 1, 22), sum(a[1], 1, 11);
  EXPECT_THAT(
      faults(),
      AllOf(HasSubstr("deadlock by order: rank "), HasSubstr("AllReduce 11"), HasSubstr("AllReduce 22"),
            HasSubstr("rank 0: AllReduce 11 fp32 sum (call 0 of"), HasSubstr("rank 1: AllReduce 22")));
  EXPECT_EQ(waits(0), cudaSuccess);
}

TEST_F(FakeNccl, OrdersOnStreamsThatWaitForEachOtherDeadlock) {
  const auto a = communicator(2), b = communicator(2);
  const auto both = [&](size_t r, const std::vector<ncclComm_t>& first, const std::vector<ncclComm_t>& second,
                        bool waits) {
    cudaSetDevice(at(r).device);
    cudaStream_t side{};
    cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    sum(first[r], r);
    cudaEvent_t event{};
    cudaEventCreate(&event);
    cudaEventRecord(event, at(r).stream);
    if (waits) cudaStreamWaitEvent(side, event, 0);
    ncclAllReduce(at(r).in, at(r).out, 1024, ncclFloat, ncclSum, second[r], side);
  };
  both(0, a, b, false);
  both(1, b, a, true);
  EXPECT_THAT(faults(), IsEmpty()) << "the streams of rank 0 do not wait for each other";
  both(0, a, b, true);
  both(1, b, a, true);
  EXPECT_THAT(faults(), HasSubstr("deadlock by order"));
}

TEST_F(FakeNccl, ARingOfSendsBeforeReceivesDeadlocks) {
  const auto c = communicator(3);
  for (size_t r = 0; r < 3; ++r) {
    ncclSend(at(r).in, 8, ncclFloat, static_cast<int>((r + 1) % 3), c[r], at(r).stream);
    ncclRecv(at(r).out, 8, ncclFloat, static_cast<int>((r + 2) % 3), c[r], at(r).stream);
  }
  EXPECT_THAT(faults(), HasSubstr("deadlock by order"));
  fake_cuda_reset();
  const auto grouped = communicator(3);
  for (size_t r = 0; r < 3; ++r) {
    ncclGroupStart();
    ncclSend(at(r).in, 8, ncclFloat, static_cast<int>((r + 1) % 3), grouped[r], at(r).stream);
    ncclRecv(at(r).out, 8, ncclFloat, static_cast<int>((r + 2) % 3), grouped[r], at(r).stream);
    ncclGroupEnd();
  }
  for (size_t r = 0; r < 3; ++r) EXPECT_EQ(waits(r), cudaSuccess);
  EXPECT_THAT(faults(), IsEmpty()) << "calls of a group are one kernel";
}

TEST_F(FakeNccl, PremultipliedSums) {
  const auto c = communicator(2);
  float half = 0.5F;
  std::vector<ncclRedOp_t> ops(2);
  for (size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(ncclRedOpCreatePreMulSum(&ops[r], &half, ncclFloat, ncclScalarHostImmediate, c[r]),
              ncclSuccess);
    EXPECT_EQ(sum(c[r], r, 8, ncclFloat, ops[r]), ncclSuccess);
  }
  EXPECT_EQ(waits(0), cudaSuccess);
  EXPECT_THAT(faults(), IsEmpty());
  EXPECT_EQ(sum(c[0], 0, 8, ncclBfloat16, ops[0]), ncclInvalidArgument);
  EXPECT_THAT(faults(), HasSubstr("the reduction is of another type"));
  EXPECT_EQ(ncclRedOpDestroy(ops[0], c[0]), ncclSuccess);
  EXPECT_EQ(sum(c[0], 0, 8, ncclFloat, ops[0]), ncclInvalidArgument);
  EXPECT_THAT(faults(), HasSubstr("no such reduction, or destroyed already"));
  EXPECT_EQ(ncclRedOpCreatePreMulSum(&ops[1], &half, ncclFloat, ncclScalarDevice, c[1]), ncclInvalidArgument);
  EXPECT_THAT(faults(), HasSubstr("the factor lies in memory of the host"));
}

TEST_F(FakeNccl, FinalizedAndDestroyedCommunicators) {
  const auto c = communicator(2);
  EXPECT_EQ(ncclCommFinalize(c[0]), ncclSuccess);
  EXPECT_EQ(sum(c[0], 0), ncclInvalidArgument);
  EXPECT_THAT(faults(), HasSubstr("the communicator is finalized"));
  EXPECT_EQ(ncclCommDestroy(c[1]), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(c[1]), ncclInvalidArgument);
  EXPECT_THAT(faults(), HasSubstr("no such communicator, or destroyed already"));
}

TEST_F(FakeNccl, AbortEndsWaitingCalls) {
  const auto c = communicator(2);
  sum(c[0], 0);
  EXPECT_EQ(ncclCommAbort(c[0]), ncclSuccess);
  EXPECT_EQ(waits(0), cudaSuccess);
  EXPECT_THAT(faults(), IsEmpty());
}

TEST_F(FakeNccl, TwoRanksOnOneDevice) {
  ncclUniqueId id{};
  ncclGetUniqueId(&id);
  ncclComm_t a{}, b{};
  cudaSetDevice(0);
  ncclGroupStart();
  ncclCommInitRank(&a, 2, id, 0);
  ncclCommInitRank(&b, 2, id, 1);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_THAT(faults(), HasSubstr("rank 0 has the same device"));
}

TEST_F(FakeNccl, RanksOfTwoHostsMayHaveOneDevice) {
  ncclUniqueId id{};
  ncclGetUniqueId(&id);
  ncclComm_t a{}, b{};
  cudaSetDevice(0);
  ncclGroupStart();
  setenv("NCCL_HOSTID", "first", 1);
  ncclCommInitRank(&a, 2, id, 0);
  setenv("NCCL_HOSTID", "second", 1);
  ncclCommInitRank(&b, 2, id, 1);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_THAT(faults(), IsEmpty());
}

TEST_F(FakeNccl, MissingRank) {
  ncclUniqueId id{};
  ncclGetUniqueId(&id);
  ncclComm_t comm{};
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 1), ncclSystemError);
  EXPECT_THAT(faults(), HasSubstr("came in 1 s: rank 0 has not come; rank 1 has called nothing"));
}

/// Runs ranks in separate processes. Returns the faults of each.
std::vector<std::string> in_processes(int ranks, const std::function<void(int rank, ncclComm_t comm)>& work) {
  ncclUniqueId id{};
  ncclGetUniqueId(&id);
  std::vector<std::string> found;
  std::vector<std::pair<pid_t, int>> started;
  for (int rank = 0; rank < ranks; ++rank) {
    int ends[2];
    if (pipe(ends) != 0) abort();
    const pid_t process = fork();
    if (process == 0) {
      cudaSetDevice(rank);
      ncclComm_t comm{};
      ncclCommInitRankConfig(&comm, ranks, id, rank, nullptr);
      work(rank, comm);
      const std::string text = faults();
      if (write(ends[1], text.data(), text.size()) < 0) abort();
      exit(0);  // NOLINT: the fake library checks for unfinished calls at exit
    }
    close(ends[1]);
    started.emplace_back(process, ends[0]);
  }
  for (const auto& [process, end] : started) {
    std::string text(1 << 14, '\0');
    const ssize_t got = read(end, text.data(), text.size());
    text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    int status = 0;
    waitpid(process, &status, 0);
    close(end);
    found.push_back(text + (WIFSIGNALED(status)                         ? "killed"
                            : text.empty() && WEXITSTATUS(status) == 86 ? "faults at the end"
                                                                        : ""));
  }
  return found;
}

TEST_F(FakeNccl, SplitCommunicatorsOfProcesses) {
  const auto found = in_processes(4, [](int rank, ncclComm_t comm) {
    const Rank mine(rank);
    ncclComm_t half{};
    EXPECT_EQ(ncclCommSplit(comm, rank % 2, -rank, &half, nullptr), ncclSuccess);
    int size = 0, place = 0;
    ncclCommCount(half, &size);
    ncclCommUserRank(half, &place);
    ncclAllReduce(mine.in, mine.out, static_cast<size_t>(10 * size + place % 1 + rank % 2), ncclFloat,
                  ncclSum, half, mine.stream);
    if (place != (rank < 2 ? 1 : 0) || cudaStreamSynchronize(mine.stream) != cudaSuccess) abort();
  });
  EXPECT_THAT(found, ::testing::Each(IsEmpty()));
}

TEST_F(FakeNccl, KnownSmallNumbersArrive) {
  const auto found = in_processes(2, [](int rank, ncclComm_t comm) {
    const Rank mine(rank);
    const int own = 40 + rank;
    int got[2] = {};
    cudaMemcpy(mine.in, &own, sizeof own, cudaMemcpyHostToDevice);
    ncclBroadcast(mine.in, mine.out, 1, ncclInt32, 1, comm, mine.stream);
    cudaStreamSynchronize(mine.stream);
    cudaMemcpy(got, mine.out, sizeof own, cudaMemcpyDeviceToHost);
    if (got[0] != 41) abort();
    cudaMemcpy(mine.in, &own, sizeof own, cudaMemcpyHostToDevice);
    ncclAllGather(mine.in, mine.out, 1, ncclInt32, comm, mine.stream);
    cudaStreamSynchronize(mine.stream);
    cudaMemcpy(got, mine.out, sizeof got, cudaMemcpyDeviceToHost);
    if (got[0] != 40 || got[1] != 41) abort();
    const int parts[2] = {10 * rank, 10 * rank + 1};
    int still[2] = {};
    cudaMemcpy(mine.in, parts, sizeof parts, cudaMemcpyHostToDevice);
    ncclAlltoAll(mine.in, mine.out, 1, ncclInt32, comm, mine.stream);
    cudaStreamSynchronize(mine.stream);
    cudaMemcpy(got, mine.out, sizeof got, cudaMemcpyDeviceToHost);
    cudaMemcpy(still, mine.in, sizeof still, cudaMemcpyDeviceToHost);
    if (got[0] != rank || got[1] != 10 + rank || still[0] != parts[0] || still[1] != parts[1]) abort();
  });
  EXPECT_THAT(found, ::testing::Each(IsEmpty()));
}

TEST_F(FakeNccl, ProcessesWithDifferentCalls) {
  const auto found = in_processes(2, [](int rank, ncclComm_t comm) {
    const Rank mine(rank);
    for (int call = 0; call < 3; ++call)
      ncclAllReduce(mine.in, mine.out, call == 2 && rank == 1 ? 9 : 8, ncclFloat, ncclSum, comm, mine.stream);
    cudaStreamSynchronize(mine.stream);
  });
  EXPECT_THAT(found[0] + found[1], HasSubstr("ranks differ: AllReduce "));
  EXPECT_THAT(found[0] + found[1], HasSubstr("(call 2 of communicator"));
}

TEST_F(FakeNccl, AProcessThatDies) {
  const auto found = in_processes(2, [](int rank, ncclComm_t comm) {
    const Rank mine(rank);
    if (rank == 1) _exit(1);
    ncclAllReduce(mine.in, mine.out, 8, ncclFloat, ncclSum, comm, mine.stream);
    ncclResult_t error = ncclSuccess;
    for (int i = 0; i < 500 && error == ncclSuccess; ++i) usleep(1000), ncclCommGetAsyncError(comm, &error);
    if (error != ncclRemoteError) abort();
    cudaStreamSynchronize(mine.stream);
  });
  EXPECT_THAT(found[0], HasSubstr("rank 1 has called nothing and has ended"));
}

TEST_F(FakeNccl, UnmatchedCallsAreReportedAtTheEnd) {
  const auto found = in_processes(2, [](int rank, ncclComm_t comm) {
    const Rank mine(rank);
    if (rank == 1) ncclAllReduce(mine.in, mine.out, 8, ncclFloat, ncclSum, comm, mine.stream);
  });
  EXPECT_THAT(found[0] + found[1], HasSubstr("faults at the end"));
}
}  // namespace
}  // namespace optrush::testing
