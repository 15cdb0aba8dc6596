// Products in fp32 by oneDNN and by the library that LibTorch calls. Arguments: rows, columns and inner size
// of the product, and its form: 0 forward (x W^T), 1 gradient of x (d W), 2 gradient of W (d^T x).
//   build/bench/onednn_matmul
#include <ATen/Functions.h>
#include <benchmark/benchmark.h>

#include <optional>

#include "products.h"

namespace optrush::onednn_matmul {
namespace {
void multiply(benchmark::State& state, bool by_onednn) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2), form = state.range(3);
  const Tensor a = form == 2 ? at::randn({k, m}).t() : at::randn({m, k});
  const Tensor b = form == 0 ? at::randn({n, k}).t() : at::randn({k, n});
  Tensor out = at::empty({m, n});
  std::optional<Products> products;
  if (by_onednn) products.emplace();
  for (auto _ : state) at::mm_out(out, a, b);
  state.counters["FLOP/s"] =
      benchmark::Counter(2.0 * static_cast<double>(m * n * k), benchmark::Counter::kIsIterationInvariantRate);
}
void onednn(benchmark::State& state) { multiply(state, true); }
void libtorch(benchmark::State& state) { multiply(state, false); }

/// Products of a block with `rows` tokens, width d, a feed-forward width f and keys of width g.
void block(benchmark::internal::Benchmark* made, int64_t rows, int64_t d, int64_t f, int64_t g) {
  for (const auto& [out, in] : {std::pair(d, d), {g, d}, {f, d}, {d, f}}) {
    made->Args({rows, out, in, 0});
    made->Args({rows, in, out, 1});
    made->Args({out, in, rows, 2});
  }
}
void shapes(benchmark::internal::Benchmark* made) {
  block(made, 2048, 256, 688, 128);
  block(made, 2048, 512, 1376, 256);
  block(made, 1024, 2048, 8192, 512);
  made->Unit(benchmark::kMicrosecond)->UseRealTime();
}
BENCHMARK(onednn)->Apply(shapes);
BENCHMARK(libtorch)->Apply(shapes);
}  // namespace
}  // namespace optrush::onednn_matmul

BENCHMARK_MAIN();
