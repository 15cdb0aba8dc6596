#include "measure/sustained.h"

#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "base/seconds_since.h"
#include "measure/matmul_peak.h"
#include "measure/wait_for.h"
#ifdef OPTRUSH_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

namespace optrush {
namespace {
struct Product {
  std::string dtype;
  at::ScalarType type;
  int64_t m, k, n;
  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
  }
};

bool multiplies_fp8([[maybe_unused]] at::Device device) {
#ifdef OPTRUSH_HAS_CUDA
  int major = 0, minor = 0;
  const bool known =
      device.is_cuda() &&
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.index()) == cudaSuccess &&
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device.index()) == cudaSuccess;
  return known && 10 * major + minor >= 89;
#else
  return false;
#endif
}

/// Random values, because a GPU clocks higher on zeros.
at::Tensor matrix(int64_t rows, int64_t columns, at::Device device, at::ScalarType type) {
  return at::rand({rows, columns}, at::TensorOptions(device).dtype(at::kFloat)).sub_(0.5).to(type);
}

/// One call of the product. fp8 sums in the fast form, as a forward does, into bf16.
std::function<void()> call_of(const Product& product, at::Device device) {
  const at::Tensor a = matrix(product.m, product.k, device, product.type);
  if (product.dtype == "fp8") {
    const at::Tensor b = matrix(product.n, product.k, device, product.type).t(),
                     one = at::ones({}, at::TensorOptions(device).dtype(at::kFloat));
    return [=] { at::_scaled_mm(a, b, one, one, {}, {}, at::kBFloat16, /*use_fast_accum=*/true); };
  }
  return fastest_product(a, matrix(product.k, product.n, device, product.type));
}

double seconds_of(int64_t calls, const std::function<void()>& call, at::Device device) {
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < calls; ++i) call();
  wait_for(device);
  return seconds_since(start);
}

/// Calls for a tenth of a second: waiting for the device hardly counts, and they end in time.
int64_t calls_of_a_wait(const std::function<void()>& call, at::Device device) {
  constexpr double kWait = 0.1;
  constexpr int64_t kMost = 1000;
  seconds_of(1, call, device);  // the set-up of the library for this shape
  return std::clamp<int64_t>(std::llround(kWait / seconds_of(1, call, device)), 1, kMost);
}

SustainedProduct sustained(const Product& product, at::Device device, double seconds) {
  const auto call = call_of(product, device);
  wait_for(device);
  const int64_t calls = calls_of_a_wait(call, device);
  const auto repeat_for = [&](double wanted) {
    const auto start = std::chrono::steady_clock::now();
    int64_t made = 0;
    for (; seconds_since(start) < wanted; made += calls) seconds_of(calls, call, device);
    return static_cast<double>(made) / seconds_since(start);
  };
  repeat_for(seconds / 5);
  GpuMeter meter(device);
  meter.start();
  const double rate = repeat_for(seconds);
  meter.stop();
  return {product.dtype, product.m, product.k, product.n, product.flops() * rate, meter.readings()};
}

/// The largest square of which a sixteenth of the time is enough for one product.
Product square_within(double seconds, const std::string& dtype, at::ScalarType type) {
  constexpr int64_t kLargest = 2048;
  Product product{dtype, type, 256, 256, 256};
  while (product.m < kLargest) {
    const auto call = call_of(product, at::kCPU);
    seconds_of(1, call, at::kCPU);
    if (8 * seconds_of(1, call, at::kCPU) > seconds / 16) break;
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

std::vector<SustainedProduct> measure_sustained(at::Device device, double seconds) {
  std::vector<SustainedProduct> all;
  for (const Product& product : products_of(device, seconds))
    all.push_back(sustained(product, device, seconds));
  return all;
}
}  // namespace optrush
