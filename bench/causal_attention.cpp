// Causal attention on a CPU, forward and backward: the kernel of flash_attention beside LibTorch's.
// Arguments: positions, width of a head, bits of an element (32, 16, or 17: bf16 multiplied in fp32), heads
// of keys of all sequences (16: four sequences, eight heads that share four of keys; 1: one sequence, eight
// heads that share one), and the keys of a sliding window (0: none). CPU time is the sum over all threads.
//   OMP_WAIT_POLICY=passive build/bench/causal_attention
#include <ATen/Functions.h>
#include <benchmark/benchmark.h>

#include <cmath>
#include <limits>
#include <optional>

#include "cpu/attention.h"

namespace optrush::flash {
namespace {
struct Inputs {
  Tensor q, k, v, gradient;
  cpu::Scores scores;

  explicit Inputs(const benchmark::State& state)
      : scores{1 / std::sqrt(static_cast<double>(state.range(1))), state.range(4), state.range(2) == 17} {
    const auto type = state.range(2) == 32 ? at::kFloat : at::kBFloat16;
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
    const AttentionOut made = cpu::forward(in.q, in.k, in.v, in.scores);
    benchmark::DoNotOptimize(cpu::backward(in.gradient, in.q, in.k, in.v, made.out, made.lse, {}, in.scores));
  }
}

void libtorch(benchmark::State& state) {
  Inputs in(state);
  for (Tensor* each : {&in.q, &in.k, &in.v}) each->requires_grad_();
  const int64_t positions = state.range(0), window = state.range(4);
  std::optional<Tensor> mask;
  if (window != 0) {
    const Tensor hidden =
        at::full({positions, positions}, -std::numeric_limits<double>::infinity(), in.q.options());
    mask = hidden.tril(-window) + hidden.triu(1);
  }
  for (auto _ : state) {
    at::scaled_dot_product_attention(in.q, in.k, in.v, mask, 0.0, /*is_causal=*/!mask, in.scores.scale,
                                     /*enable_gqa=*/true)
        .backward(in.gradient);
    for (Tensor* each : {&in.q, &in.k, &in.v}) each->mutable_grad().reset();
  }
}

void shapes(benchmark::internal::Benchmark* made) {
  for (const int64_t bits : {32, 16, 17})
    for (const int64_t positions : {32, 64, 128, 256, 512, 1024, 2048, 4096, 8192}) {
      for (const int64_t width : {32, 64, 128}) made->Args({positions, width, bits, 16, 0});
      made->Args({positions, 64, bits, 1, 0});
      for (const int64_t window : {128, 512, 1024})
        if (window < positions) made->Args({positions, 64, bits, 16, window});
    }
  made->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime()->UseRealTime();
}
BENCHMARK(own)->Apply(shapes);
BENCHMARK(libtorch)->Apply(shapes);
}  // namespace
}  // namespace optrush::flash

BENCHMARK_MAIN();
