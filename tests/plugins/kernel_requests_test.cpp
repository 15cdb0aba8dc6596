// What the GPU kernels of norms, rotations, gated units and the loss ask of memory. This file is compiled
// with -fsanitize=thread (support/memory_requests.h).
#include "kernel_requests.h"

namespace {
namespace loss_source {
#include "fused_linear_cross_entropy/gpu/cross_entropy.cu"
}
namespace norm_source {
#include "fused_kernels/gpu/norm.cu"
}
namespace rotate_source {
#include "fused_kernels/gpu/rotate.cu"
}
namespace glu_source {
#include "fused_kernels/gpu/glu.cu"
}

using optrush::testing::expect_requests;
using optrush::testing::Memory;
using optrush::testing::requests_of;
using Bf16 = __nv_bfloat16;

/// Transposes a matrix (32, 32), with rows of `stride` numbers in shared memory. With `apart`, the threads of
/// a warp read from different rows.
template <int stride, bool apart>
__global__ void transpose_floats(const float* from, float* to) {
  __shared__ float tile[32 * stride];
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = 0; i < 32; ++i) tile[thread * stride + i] = from[apart ? thread * 32 + i : i * 32 + thread];
  __syncthreads();
  for (int i = 0; i < 32; ++i) to[i * 32 + thread] = tile[i * stride + thread];
}

template <int stride, bool apart>
void expect_transposing(const std::string& table) {
  Memory<float> from(32 * 32), to(32 * 32);
  expect_requests(requests_of(1, {32, 1, 1}, {from.named("from"), to.named("to")},
                              [&] { transpose_floats<stride, apart>(from.data(), to.data()); }),
                  table);
}

TEST(KernelRequests, BadOnesAreCounted) {
  expect_transposing<33, false>(R"(
read from: 32 requests, 4 sectors, 1 lines
write to: 32 requests, 4 sectors, 1 lines
shared read: 32 requests, 1 wavefronts
shared write: 32 requests, 1 wavefronts
)");
  expect_transposing<32, false>(R"(
read from: 32 requests, 4 sectors, 1 lines
write to: 32 requests, 4 sectors, 1 lines
shared read: 32 requests, 1 wavefronts
shared write: 32 requests, 32 instead of 1 wavefronts
)");
  expect_transposing<33, true>(R"(
read from: 32 requests, 32 instead of 4 sectors, 32 instead of 1 lines
write to: 32 requests, 4 sectors, 1 lines
shared read: 32 requests, 1 wavefronts
shared write: 32 requests, 1 wavefronts
)");
}

constexpr int kNormWidth = 2048;

/// A row each of two blocks.
template <class S, class D, class O, int N, bool adds>
void expect_norm(const std::string& forward, const std::string& backward) {
  constexpr int kThreads = 128, kSteps = kNormWidth / N / kThreads, kRows = 2;
  constexpr bool kLowers = adds && !std::is_same_v<S, D>;
  Memory<S> x(kRows * kNormWidth), sum(kRows * kNormWidth), gradient(kRows * kNormWidth),
      of_sum(kRows * kNormWidth);
  Memory<D> delta(kRows * kNormWidth), of_delta(kRows * kNormWidth);
  Memory<O> out(kRows * kNormWidth), of_out(kRows * kNormWidth);
  Memory<float> weight(kNormWidth), rstd(kRows), parts(kRows * kNormWidth),
      largest(norm_source::kLargestParts);
  expect_requests(requests_of(kRows, {kThreads, 1, 1},
                              {x.named("x"), delta.named("delta"), weight.named("weight"), sum.named("sum"),
                               out.named("out"), rstd.named("rstd"), largest.named("largest")},
                              [&] {
                                norm_source::norm_forward<S, D, O, N, kSteps, kThreads, adds>(
                                    x.data(), delta.data(), weight.data(), sum.data(), out.data(),
                                    rstd.data(), kNormWidth, 1e-5, largest.data());
                              }),
                  forward);
  expect_requests(
      requests_of(kRows, {kThreads, 1, 1},
                  {x.named("x"), weight.named("weight"), rstd.named("rstd"), of_out.named("gradient of out"),
                   of_sum.named("gradient of sum"), gradient.named("gradient"),
                   of_delta.named("gradient of delta"), parts.named("parts"), largest.named("largest")},
                  [&] {
                    norm_source::norm_backward<S, D, O, N, kSteps, kThreads, adds, kLowers>(
                        x.data(), rstd.data(), weight.data(), of_out.data(), of_sum.data(), gradient.data(),
                        kLowers ? of_delta.data() : nullptr, parts.data(), kRows, kNormWidth, largest.data());
                  }),
      backward);
}

TEST(KernelRequests, NormOfAnFp32Residual) {
  expect_norm<float, Bf16, Bf16, 4, true>(R"(
atomic largest: 2 requests, 1 sectors, 1 lines
read delta: 32 requests, 8 sectors, 2 lines
read weight: 32 requests, 16 sectors, 4 lines
read x: 32 requests, 16 sectors, 4 lines
write out: 32 requests, 8 sectors, 2 lines
write rstd: 2 requests, 1 sectors, 1 lines
write sum: 32 requests, 16 sectors, 4 lines
shared read: 64 requests, 1 wavefronts
shared write: 16 requests, 1 wavefronts
)",
                                          R"(
atomic largest: 2 requests, 1 sectors, 1 lines
read gradient of out: 32 requests, 8 sectors, 2 lines
read gradient of sum: 32 requests, 16 sectors, 4 lines
read rstd: 8 requests, 1 sectors, 1 lines
read weight: 32 requests, 16 sectors, 4 lines
read x: 32 requests, 16 sectors, 4 lines
write gradient: 32 requests, 16 sectors, 4 lines
write gradient of delta: 32 requests, 8 sectors, 2 lines
write parts: 32 requests, 16 sectors, 4 lines
shared read: 64 requests, 1 wavefronts
shared write: 16 requests, 1 wavefronts
)");
}

TEST(KernelRequests, NormInBf16) {
  expect_norm<Bf16, Bf16, Bf16, 8, true>(R"(
atomic largest: 2 requests, 1 sectors, 1 lines
read delta: 16 requests, 16 sectors, 4 lines
read weight: 32 requests, 32 instead of 16 sectors, 8 instead of 4 lines
read x: 16 requests, 16 sectors, 4 lines
write out: 16 requests, 16 sectors, 4 lines
write rstd: 2 requests, 1 sectors, 1 lines
write sum: 16 requests, 16 sectors, 4 lines
shared read: 64 requests, 1 wavefronts
shared write: 16 requests, 1 wavefronts
)",
                                         R"(
atomic largest: 2 requests, 1 sectors, 1 lines
read gradient of out: 16 requests, 16 sectors, 4 lines
read gradient of sum: 16 requests, 16 sectors, 4 lines
read rstd: 8 requests, 1 sectors, 1 lines
read weight: 32 requests, 32 instead of 16 sectors, 8 instead of 4 lines
read x: 16 requests, 16 sectors, 4 lines
write gradient: 16 requests, 16 sectors, 4 lines
write parts: 32 requests, 32 instead of 16 sectors, 8 instead of 4 lines
shared read: 64 requests, 1 wavefronts
shared write: 16 requests, 1 wavefronts
)");
}

TEST(KernelRequests, SumOfTheNormsParts) {
  constexpr int kBlocks = 64;
  Memory<float> parts(kBlocks * kNormWidth), gradient(kNormWidth);
  expect_requests(requests_of(2, {16, 32, 1}, {parts.named("parts"), gradient.named("gradient")},
                              [&] {
                                norm_source::sum_weight_parts<float, float, 16, 32>(
                                    parts.data(), gradient.data(), kBlocks, kNormWidth);
                              }),
                  R"(
read parts: 64 requests, 4 sectors, 2 instead of 1 lines
write gradient: 2 requests, 2 sectors, 1 lines
shared read: 62 requests, 1 wavefronts
shared write: 32 requests, 1 wavefronts
)");
}

TEST(KernelRequests, Rotation) {
  constexpr int kQueries = 32, kKeys = 8, kHead = 64;
  Memory<Bf16> q(kQueries * kHead), k(kKeys * kHead), q_out(kQueries * kHead), k_out(kKeys * kHead);
  Memory<float> cos(kHead), sin(kHead);
  const auto heads = [](Memory<Bf16>& in, Memory<Bf16>& out, long long count) {
    return rotate_source::Heads{in.data(), out.data(), count,        0, kHead, count * kHead,
                                0,         kHead,      count * kHead};
  };
  expect_requests(requests_of(1, {160, 1, 1},
                              {q.named("q"), k.named("k"), q_out.named("q"), k_out.named("k"),
                               cos.named("cos"), sin.named("sin")},
                              [&] {
                                rotate_source::rotate<Bf16, 8>(heads(q, q_out, kQueries),
                                                               heads(k, k_out, kKeys), cos.data(), sin.data(),
                                                               0, kHead, 1, kHead, 0);
                              }),
                  R"(
read cos: 20 requests, 4 instead of 2 sectors, 1 lines
read k: 2 requests, 16 sectors, 8 instead of 4 lines
read q: 8 requests, 16 sectors, 8 instead of 4 lines
read sin: 20 requests, 4 instead of 2 sectors, 1 lines
write k: 2 requests, 16 sectors, 8 instead of 4 lines
write q: 8 requests, 16 sectors, 8 instead of 4 lines
)");
}

TEST(KernelRequests, GatedUnits) {
  constexpr size_t kCount = 256 * 8;
  Memory<Bf16> gate(kCount), up(kCount), out(kCount), of_gate(kCount), of_up(kCount), of_out(kCount);
  Memory<float> largest(2 * glu_source::kLargestParts);
  expect_requests(
      requests_of(1, {256, 1, 1},
                  {gate.named("gate"), up.named("up"), out.named("out"), largest.named("largest")},
                  [&] {
                    glu_source::glu_forward<Bf16, 8, false>(gate.data(), up.data(), out.data(), kCount,
                                                            largest.data());
                  }),
      R"(
atomic largest: 1 requests, 1 sectors, 1 lines
read gate: 8 requests, 16 sectors, 4 lines
read up: 8 requests, 16 sectors, 4 lines
write out: 8 requests, 16 sectors, 4 lines
shared read: 64 requests, 1 wavefronts
shared write: 8 requests, 1 wavefronts
)");
  expect_requests(
      requests_of(
          1, {256, 1, 1},
          {gate.named("gate"), up.named("up"), of_out.named("gradient of out"),
           of_gate.named("gradient of gate"), of_up.named("gradient of up"), largest.named("largest")},
          [&] {
            glu_source::glu_backward<Bf16, 8, false>(gate.data(), up.data(), of_out.data(), of_gate.data(),
                                                     of_up.data(), kCount, kCount, kCount, largest.data());
          }),
      R"(
atomic largest: 2 requests, 1 sectors, 1 lines
read gate: 8 requests, 16 sectors, 4 lines
read gradient of out: 8 requests, 16 sectors, 4 lines
read up: 8 requests, 16 sectors, 4 lines
write gradient of gate: 8 requests, 16 sectors, 4 lines
write gradient of up: 8 requests, 16 sectors, 4 lines
shared read: 128 requests, 1 wavefronts
shared write: 16 requests, 1 wavefronts
)");
}

TEST(KernelRequests, CrossEntropy) {
  constexpr int kVocabulary = 32768;
  Memory<Bf16> logits(kVocabulary);
  Memory<long long> labels(1);
  Memory<float> losses(1);
  expect_requests(
      requests_of(1, {1024, 1, 1}, {logits.named("logits"), labels.named("labels"), losses.named("losses")},
                  [&] {
                    loss_source::cross_entropy<Bf16, 8, true, false, 1024, 1>(logits.data(), labels.data(),
                                                                              losses.data(), kVocabulary,
                                                                              kVocabulary, -100, 0, nullptr);
                  }),
      R"(
read labels: 32 requests, 1 sectors, 1 lines
read logits: 256 requests, 16 sectors, 4 lines
write logits: 129 requests, 15.9 sectors, 3.98 lines
write losses: 1 requests, 1 sectors, 1 lines
shared read: 2048 requests, 1 wavefronts
shared write: 64 requests, 1 wavefronts
)");
}
}  // namespace
