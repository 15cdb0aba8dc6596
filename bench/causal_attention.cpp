// Causal attention on a CPU, forward and backward: the kernel of flash_attention beside LibTorch's.
// Arguments: positions, width of a head, bits of an element (32 or 16), and heads of keys of all sequences:
// 16 (four sequences, eight heads that share four of keys) or 1 (one sequence, eight heads that share one).
// CPU time is the sum over all threads.
//   OMP_WAIT_POLICY=passive build/bench/causal_attention
#include <ATen/Functions.h>
#include <benchmark/benchmark.h>

#include <cmath>

#include "cpu/attention.h"

namespace optrush::flash {
namespace {
struct Inputs {
  Tensor q, k, v, gradient;
  double scale;

  explicit Inputs(const benchmark::State& state) : scale(1 / std::sqrt(static_cast<double>(state.range(1)))) {
    const auto type = state.range(2) == 16 ? at::kBFloat16 : at::kFloat;
    const int64_t batch = state.range(3) == 1 ? 1 : 4, of_keys = state.range(3) / batch;
    const auto heads = [&](int64_t count) {
      return at::randn({batch, state.range(0), count, state.range(1)}).to(type).transpose(1, 2);
    };
    q = heads(8), k = heads(of_keys), v = heads(of_keys), gradient = heads(8);
  }
};

void own(benchmark::State& state) {
  const Inputs in(state);
  for (auto _ : state) {
    const AttentionOut made = cpu::forward(in.q, in.k, in.v, in.scale);
    benchmark::DoNotOptimize(cpu::backward(in.gradient, in.q, in.k, in.v, made.out, made.lse, in.scale));
  }
}

void libtorch(benchmark::State& state) {
  Inputs in(state);
  for (Tensor* each : {&in.q, &in.k, &in.v}) each->requires_grad_();
  for (auto _ : state) {
    at::scaled_dot_product_attention(in.q, in.k, in.v, {}, 0.0, /*is_causal=*/true, in.scale,
                                     /*enable_gqa=*/true)
        .backward(in.gradient);
    for (Tensor* each : {&in.q, &in.k, &in.v}) each->mutable_grad().reset();
  }
}

void shapes(benchmark::internal::Benchmark* made) {
  for (const int64_t bits : {32, 16})
    for (const int64_t positions : {32, 64, 128, 256, 512, 1024, 2048, 4096, 8192}) {
      for (const int64_t width : {32, 64, 128}) made->Args({positions, width, bits, 16});
      made->Args({positions, 64, bits, 1});
    }
  made->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime()->UseRealTime();
}
BENCHMARK(own)->Apply(shapes);
BENCHMARK(libtorch)->Apply(shapes);
}  // namespace
}  // namespace optrush::flash

BENCHMARK_MAIN();
