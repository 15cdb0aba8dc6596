#include "measure/matmul_peak.h"

#include <ATen/Context.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mkldnn_linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>

#include "base/contains.h"
#include "base/seconds_since.h"
#include "measure/wait_for.h"

namespace optrush {
namespace {
/// fp32 FLOPs per cycle. A multiply-add counts two, on two units (four narrow ones on AArch64).
double fp32_per_cycle(const CpuInfo& cpu) {
  const auto has = [&](std::string_view name) { return contains(cpu.isa, name); };
  constexpr double kUnknown = std::numeric_limits<double>::infinity();
  if (has("sve") || has("sve2") || has("sme")) return kUnknown;  // the width depends on the maker
  if (has("avx512f")) return 2 * 2 * 16;
  if (has("avx") || has("avx2")) return 2 * 2 * 8;
  if (has("asimd")) return 2 * 4 * 4;
  if (has("sse4_2")) return 2 * 2 * 4;
  return kUnknown;
}

/// AMX tiles multiply types of two bytes: 16 x 16 sums of 32 products in 16 cycles; taken twice.
bool has_tiles(const CpuInfo& cpu) {
  return std::ranges::any_of(cpu.isa, [](const std::string& name) { return name.starts_with("amx_"); });
}

/// Seconds per call, from `calls` consecutive calls, so that waiting for the device hardly counts.
double time_calls(at::Device device, int64_t calls, const std::function<void()>& call) {
  wait_for(device);
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < calls; ++i) call();
  wait_for(device);
  return seconds_since(start) / static_cast<double>(calls);
}

int64_t calls_for(double seconds_each) {
  constexpr double kSample = 5e-3;
  return std::clamp<int64_t>(std::llround(kSample / seconds_each), 1, 1000);
}

/// A matrix product that is repeated.
struct Matmul {
  size_t kind;
  double flops;
  std::function<void()> multiply;
  double least_seconds;  ///< lower bound; a shorter time is an error of the clock
  double seconds = 0;    ///< time of the fastest call; 0: none yet
};

struct Kind {
  const char* name;
  at::ScalarType dtype;
  double most_flops = std::numeric_limits<double>::infinity();  ///< upper bound of FLOP/s on this machine
};

Matmul make_matmul(size_t index, const Kind& kind, int64_t size, at::Device device) {
  // Random values, because a GPU clocks higher on zeros.
  const auto options = at::TensorOptions(device).dtype(at::kFloat);
  const auto matrix = [&] { return at::rand({size, size}, options).sub_(0.5).to(kind.dtype); };
  const double flops = 2.0 * std::pow(static_cast<double>(size), 3);
  return {index, flops, fastest_product(matrix(), matrix()), flops / kind.most_flops};
}

void run(Matmul& matmul, at::Device device) {
  const double seconds =
      time_calls(device, matmul.seconds > 0 ? calls_for(matmul.seconds) : 1, matmul.multiply);
  matmul.seconds = shortest_possible(matmul.seconds, seconds, matmul.least_seconds);
}

/// The three largest sizes whose repetitions take less than `seconds`.
std::vector<Matmul> sizes_within(double seconds, size_t index, const Kind& kind, at::Device device) {
  constexpr int64_t kSmallest = 256, kLargest = 8192;  // 1.6 GB in fp64
  constexpr double kRepetitions = 4;
  std::vector<Matmul> matmuls;
  for (int64_t size = kSmallest; size <= kLargest; size *= 2) {
    matmuls.push_back(make_matmul(index, kind, size, device));
    run(matmuls.back(), device);  // the first call includes the library's set-up for this shape
    run(matmuls.back(), device);
    if (matmuls.size() > 3) matmuls.erase(matmuls.begin());
    if (matmuls.back().seconds * 8 * kRepetitions > seconds) break;
  }
  return matmuls;
}
}  // namespace

double most_flops(const CpuInfo& cpu, c10::ScalarType type) {
  constexpr double kClock = 10e9, kTiles = 4096;
  const auto bytes = static_cast<double>(c10::elementSize(type));
  double per_cycle = fp32_per_cycle(cpu) * 4 / bytes;
  if (bytes == 2 && has_tiles(cpu)) per_cycle = std::max(per_cycle, kTiles);
  return static_cast<double>(std::max<int64_t>(cpu.threads, 1)) * kClock * per_cycle;
}

std::function<void()> fastest_product(const at::Tensor& a, const at::Tensor& b) {
  std::function<void()> plain = [a, b, out = at::empty({a.size(0), b.size(1)}, a.options())]() mutable {
    at::mm_out(out, a, b);
  };
  if (!a.is_cpu() || a.scalar_type() != at::kFloat || !at::hasMKLDNN() ||
      !at::globalContext().userEnabledMkldnn())
    return plain;
  std::function<void()> onednn = [a = a.to_mkldnn(), b = b.t().contiguous().to_mkldnn()] {
    at::mkldnn_linear(a, b);
  };
  const auto seconds = [&](const std::function<void()>& call) {
    call();  // includes the library's set-up for this shape
    return time_calls(a.device(), 1, call);
  };
  return seconds(onednn) < seconds(plain) ? onednn : plain;
}

double shortest_possible(double so_far, double seconds, double least) {
  if (seconds <= least) return so_far;
  return so_far > 0 ? std::min(so_far, seconds) : seconds;
}

std::vector<std::pair<std::string, double>> measure_matmul_peak(at::Device device, double seconds) {
  std::array<Kind, 4> kinds = {
      {{"fp32", at::kFloat}, {"bf16", at::kBFloat16}, {"fp16", at::kHalf}, {"fp64", at::kDouble}}};
  if (device.is_cpu()) {
    const CpuInfo cpu = read_cpu();
    for (Kind& kind : kinds) kind.most_flops = most_flops(cpu, kind.dtype);
  }
  const auto start = std::chrono::steady_clock::now();
  std::vector<Matmul> matmuls;
  for (size_t i = 0; i < kinds.size(); ++i)
    for (auto& matmul : sizes_within(seconds / 2 / static_cast<double>(kinds.size()), i, kinds[i], device))
      matmuls.push_back(std::move(matmul));
  do {
    for (auto& matmul : matmuls) run(matmul, device);
  } while (seconds_since(start) < seconds);
  std::vector<std::pair<std::string, double>> peaks;
  for (const auto& kind : kinds) peaks.emplace_back(kind.name, 0);
  for (const auto& matmul : matmuls) {
    double& peak = peaks[matmul.kind].second;
    if (matmul.seconds > 0) peak = std::max(peak, matmul.flops / matmul.seconds);
  }
  return peaks;
}

std::vector<std::pair<std::string, double>> measure_bandwidths(at::Device device, int64_t working_set,
                                                               double seconds) {
  const int64_t elements = working_set / 3 / static_cast<int64_t>(sizeof(float));
  const auto options = at::TensorOptions(device).dtype(at::kFloat);
  at::Tensor a = at::full({elements}, 0, options), b = at::full({elements}, 1, options),
             c = at::full({elements}, 2, options);
  struct Stream {
    const char* name;
    double arrays;
    std::function<void()> run;
  };
  const std::array<Stream, 4> streams = {{{"read", 1, [&] { b.sum(); }},
                                          {"write", 1, [&] { a.fill_(1); }},
                                          {"copy", 2, [&] { a.copy_(b); }},
                                          {"triad", 3, [&] { at::add_out(a, b, c, 3); }}}};
  const double array_bytes = static_cast<double>(elements) * sizeof(float);
  const int64_t calls = calls_for(time_calls(device, 1, streams[2].run));
  std::vector<std::pair<std::string, double>> best;
  for (const auto& stream : streams) best.emplace_back(stream.name, 0);
  const auto start = std::chrono::steady_clock::now();
  do {
    for (size_t i = 0; i < streams.size(); ++i)
      best[i].second = std::max(best[i].second,
                                streams[i].arrays * array_bytes / time_calls(device, calls, streams[i].run));
  } while (seconds_since(start) < seconds);
  return best;
}
}  // namespace optrush
