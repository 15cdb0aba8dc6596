// Each fused CPU kernel against its plain form: time, and the share of the memory bandwidth that its
// compulsory bytes take (each input read once, each result written once). Rounds are interleaved, including
// the bandwidth. The best round of each counts, because other programs can only slow it down.
//   build/bench/fused_kernels [MiB of inputs and results] [rounds]
// Default: four times the last-level cache, 5 rounds.
#include <ATen/Functions.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "measure/cpu_info.h"
#include "measure/matmul_peak.h"
#include "measure/memory.h"
#include "model/operators.h"
#include "pairs.h"

namespace optrush {
namespace {
constexpr double kEps = 1e-5;
constexpr int64_t kWidth = 4096, kHeadWidth = 64;

double seconds_of(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double best(const std::vector<double>& seconds) { return *std::ranges::min_element(seconds); }

double bytes_of(const Tensors& tensors) {
  double bytes = 0;
  for (const Tensor& tensor : tensors) bytes += static_cast<double>(tensor.nbytes());
  return bytes;
}

struct Operator {
  const char* name;
  Differentiable pair;
  std::function<Tensors(const Tensors&)> plain;
  std::function<Tensors(int64_t bytes, at::TensorOptions)> inputs;
  /// Tensors of full size that a call reads and writes, forward and backward: the others are small.
  int64_t forward_moves, backward_moves;
};

Tensor rows(int64_t bytes, int64_t tensors, at::TensorOptions options) {
  const auto size = static_cast<int64_t>(c10::elementSize(c10::typeMetaToScalarType(options.dtype())));
  return at::randn({std::max<int64_t>(1, bytes / tensors / kWidth / size), kWidth}, options);
}

std::vector<Operator> operators() {
  const auto norm = [](const Tensor& x, const Tensor& weight) {
    return plain::norm(x, weight, {}, {.eps = kEps});
  };
  return {
      {"norm", fused::norm(kEps),
       [=](const Tensors& in) -> Tensors {
         return {in[0], norm(in[0], in[1])};
       },
       [](int64_t bytes, auto options) -> Tensors {
         return {rows(bytes, 2, options), at::randn({kWidth})};
       },
       2, 4},
      {"add_norm", fused::add_norm(kEps),
       [=](const Tensors& in) -> Tensors {
         const Tensor sum = in[0] + in[1];
         return {sum, norm(sum, in[2])};
       },
       [](int64_t bytes, auto options) -> Tensors {
         return {rows(bytes, 4, options), rows(bytes, 4, options), at::randn({kWidth})};
       },
       4, 4},
      {"position", fused::position(),
       [](const Tensors& in) -> Tensors {
         return {plain::rotate(in[0], in[2], in[3]), plain::rotate(in[1], in[2], in[3])};
       },
       [](int64_t bytes, auto options) -> Tensors {
         const auto heads = [&] {
           return rows(bytes, 4, options).view({1, -1, kWidth / kHeadWidth, kHeadWidth}).transpose(1, 2);
         };
         const Tensor q = heads(), k = heads();
         const Tensor angles = at::randn({1, 1, q.size(2), kHeadWidth});
         return {q, k, angles.cos(), angles.sin()};
       },
       4, 4},
      {"swiglu", fused::swiglu(), [](const Tensors& in) -> Tensors { return {plain::swiglu(in[0], in[1])}; },
       [](int64_t bytes, auto options) -> Tensors {
         return {rows(bytes, 3, options), rows(bytes, 3, options)};
       },
       3, 5},
      {"geglu", fused::geglu(),
       [](const Tensors& in) -> Tensors { return {plain::geglu(in[0], in[1], Activation::gelu_tanh)}; },
       [](int64_t bytes, auto options) -> Tensors {
         return {rows(bytes, 3, options), rows(bytes, 3, options)};
       },
       3, 5}};
}

struct Times {
  std::vector<double> plain_forward, plain_backward, forward, backward, bandwidth;
};

double triad_bandwidth(int64_t bytes, double seconds) {
  for (const auto& [kind, rate] : measure_bandwidths(at::kCPU, bytes, seconds))
    if (kind == "triad") return rate;
  return 0;
}

void measure(const Operator& op, at::ScalarType type, int64_t bytes, int rounds) {
  Tensors in = op.inputs(bytes, at::TensorOptions(type));
  const size_t derived = op.pair->name == "fused_position" ? 2 : in.size();
  Times times;
  for (int round = -1; round < rounds; ++round) {  // the first round is a warm-up
    Tensors out, gradients;
    Times once;
    Tensors leaves;
    for (size_t i = 0; i < in.size(); ++i) leaves.push_back(in[i].detach().requires_grad_(i < derived));
    const Tensors inputs(leaves.begin(), leaves.begin() + static_cast<int64_t>(derived));
    once.plain_forward.push_back(seconds_of([&] { out = op.plain(leaves); }));
    for (const Tensor& each : out) gradients.push_back(at::ones_like(each));
    once.plain_backward.push_back(
        seconds_of([&] { torch::autograd::grad(out, inputs, gradients, /*retain_graph=*/false); }));
    out.clear();
    Differentiable::Result result;
    once.forward.push_back(seconds_of([&] { result = op.pair->forward(in); }));
    Tensors back;
    once.backward.push_back(seconds_of([&] { back = op.pair->backward(result.saved, gradients); }));
    if (round < 0) continue;
    times.bandwidth.push_back(triad_bandwidth(bytes, 0.1));
    times.plain_forward.push_back(once.plain_forward[0]);
    times.plain_backward.push_back(once.plain_backward[0]);
    times.forward.push_back(once.forward[0]);
    times.backward.push_back(once.backward[0]);
  }
  const double full = bytes_of({in[0]}), bandwidth = *std::ranges::max_element(times.bandwidth);
  const auto line = [&](const char* direction, double plain, double fused, int64_t moves) {
    const double rate = full * static_cast<double>(moves) / fused;
    std::printf("%-9s %-9s %-8s %8.1f ms %8.1f ms %6.2fx %6.1f GB/s %5.0f %%\n", op.name, c10::toString(type),
                direction, plain * 1e3, fused * 1e3, plain / fused, rate / 1e9, 100 * rate / bandwidth);
  };
  line("forward", best(times.plain_forward), best(times.forward), op.forward_moves);
  line("backward", best(times.plain_backward), best(times.backward), op.backward_moves);
}
}  // namespace
}  // namespace optrush

int main(int arguments, char** values) {
  using namespace optrush;
  install_cpu_memory_tracking();
  const int64_t mebibytes =
      arguments > 1 ? std::atoll(values[1]) : 4 * read_cpu().cache_bytes.value_or(32 << 20) >> 20;
  const int rounds = arguments > 2 ? std::atoi(values[2]) : 5;
  std::printf("working set %lld MiB, bandwidth %.1f GB/s\n", static_cast<long long>(mebibytes),
              triad_bandwidth(mebibytes << 20, 1) / 1e9);
  std::printf("operator  type      half        plain       fused  faster  compulsory  of the bandwidth\n");
  for (const auto& op : operators())
    for (const auto type : {at::kFloat, at::kBFloat16}) measure(op, type, mebibytes << 20, rounds);
}
