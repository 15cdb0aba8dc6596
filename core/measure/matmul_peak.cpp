#include "measure/matmul_peak.h"

#include <ATen/Context.h>
#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mkldnn_linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
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

/// Random values, because a GPU clocks higher on zeros.
at::Tensor random_matrix(int64_t rows, int64_t columns, at::Device device, at::ScalarType type) {
  return at::rand({rows, columns}, at::TensorOptions(device).dtype(at::kFloat)).sub_(0.5).to(type);
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
  const auto matrix = [&] { return random_matrix(size, size, device, kind.dtype); };
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

/// A product whose rate over seconds is measured: (m, k) times (k, n).
struct Product {
  std::string dtype;
  at::ScalarType type;
  int64_t m, k, n;
};

bool multiplies_fp8(at::Device device) {
  return std::stoll(visible_gpus(nullptr).at(static_cast<size_t>(device.index())).sm.substr(3)) >= 89;
}

/// One call of the product. fp8 sums in the fast form, as a forward does, into bf16.
std::function<void()> call_of(const Product& product, at::Device device) {
  const at::Tensor a = random_matrix(product.m, product.k, device, product.type);
  if (product.dtype == "fp8") {
    const at::Tensor b = random_matrix(product.n, product.k, device, product.type).t(),
                     one = at::ones({}, at::TensorOptions(device).dtype(at::kFloat));
    return [=] { at::_scaled_mm(a, b, one, one, {}, {}, at::kBFloat16, /*use_fast_accum=*/true); };
  }
  return fastest_product(a, random_matrix(product.k, product.n, device, product.type));
}

/// Seconds of a call after the first one, which includes the set-up of the library for this shape.
double seconds_of_a_call(const std::function<void()>& call, at::Device device) {
  time_calls(device, 1, call);
  return time_calls(device, 1, call);
}

SustainedProduct sustained(const Product& product, at::Device device, double seconds) {
  // The device is waited for ten times a second: that hardly counts, and the calls end in time.
  constexpr double kWait = 0.1;
  constexpr int64_t kMost = 1000;
  const auto call = call_of(product, device);
  const int64_t calls = std::clamp<int64_t>(std::llround(kWait / seconds_of_a_call(call, device)), 1, kMost);
  const auto calls_per_second = [&](double wanted) {
    const auto start = std::chrono::steady_clock::now();
    int64_t made = 0;
    for (; seconds_since(start) < wanted; made += calls) time_calls(device, calls, call);
    return static_cast<double>(made) / seconds_since(start);
  };
  calls_per_second(seconds / 5);
  GpuMeter meter(device);
  meter.start();
  const double rate = calls_per_second(seconds);
  meter.stop();
  const double flops =
      2.0 * static_cast<double>(product.m) * static_cast<double>(product.k) * static_cast<double>(product.n);
  return {product.dtype, product.m, product.k, product.n, flops * rate, meter.readings()};
}

/// The largest square of which a sixteenth of the time is enough for one product.
Product square_within(double seconds, const std::string& dtype, at::ScalarType type) {
  constexpr int64_t kLargest = 2048;
  Product product{dtype, type, 256, 256, 256};
  while (product.m < kLargest) {
    if (8 * seconds_of_a_call(call_of(product, at::kCPU), at::kCPU) > seconds / 16) break;
    product.m = product.k = product.n = 2 * product.m;
  }
  return product;
}

std::vector<Product> products_of(at::Device device, double seconds) {
  if (device.is_cpu())
    return {square_within(seconds, "fp32", at::kFloat), square_within(seconds, "bf16", at::kBFloat16)};
  std::vector<Product> products;
  const auto add = [&](const std::string& dtype, at::ScalarType type) {
    products.push_back({dtype, type, 8192, 8192, 8192});
    products.push_back({dtype, type, 32768, 2048, 8192});
  };
  add("bf16", at::kBFloat16);
  if (multiplies_fp8(device)) add("fp8", at::kFloat8_e4m3fn);
  return products;
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

std::vector<SustainedProduct> measure_sustained(at::Device device, double seconds) {
  std::vector<SustainedProduct> all;
  for (const Product& product : products_of(device, seconds))
    all.push_back(sustained(product, device, seconds));
  return all;
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
