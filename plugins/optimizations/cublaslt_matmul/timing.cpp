#include "timing.h"

#include <ATen/Functions.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace optrush::cublaslt_matmul {
namespace {
/// Calls of a candidate before the first round, rounds, and calls in a round.
constexpr int kUntimed = 2, kRounds = 5, kCalls = 2;
constexpr double kFasterBy = 1.01;

/// Numbers between -1 and 1. They are not drawn, so the generator of the training stays as it is.
Tensor matrix_with_numbers(int64_t columns, int64_t leading, at::ScalarType type, at::Device device) {
  const auto options = at::TensorOptions(type).device(device);
  const auto wave = [&](int64_t count, double step) {
    return at::arange(count, options.dtype(at::kFloat)).mul_(step).sin_().to(type);
  };
  Tensor matrix = at::empty({columns, leading}, options);
  return at::mul_out(matrix, wave(columns, 78.233).unsqueeze(1), wave(leading, 12.9898));
}

/// Milliseconds of some calls of a candidate; infinite if one fails.
double milliseconds_of(size_t candidate, const std::function<bool(size_t)>& run, const c10::Stream& stream) {
  c10::Event begin(at::kCUDA, c10::EventFlag::BACKEND_DEFAULT),
      end(at::kCUDA, c10::EventFlag::BACKEND_DEFAULT);
  bool ran = true;
  begin.record(stream);
  for (int call = 0; call < kCalls; ++call) ran = run(candidate) && ran;
  end.record(stream);
  end.synchronize();
  return ran ? begin.elapsedTime(end) : std::numeric_limits<double>::infinity();
}
}  // namespace

Operands::Operands(const Shape& shape, at::Device device)
    : shape_(shape),
      a_(matrix_with_numbers(shape.a_transposed ? shape.m : shape.k, shape.a_leading, shape.type, device)),
      b_(matrix_with_numbers(shape.b_transposed ? shape.k : shape.n, shape.b_leading, shape.type, device)),
      d_(matrix_with_numbers(shape.n, shape.d_leading, shape.result, device)) {
  c_ = shape.adds == Adds::another ? matrix_with_numbers(shape.n, shape.c_leading, shape.result, device) : d_;
}

Product Operands::product() const {
  return {shape_, a_.const_data_ptr(), b_.const_data_ptr(), c_.const_data_ptr(), d_.mutable_data_ptr()};
}

size_t fastest(size_t count, const std::function<bool(size_t)>& run) {
  const c10::Stream stream =
      c10::impl::VirtualGuardImpl(at::kCUDA).getStream(c10::impl::VirtualGuardImpl(at::kCUDA).getDevice());
  for (size_t candidate = 0; candidate < count; ++candidate)
    for (int call = 0; call < kUntimed; ++call) run(candidate);
  std::vector<std::vector<double>> times(count);
  for (int round = 0; round < kRounds; ++round)
    for (size_t candidate = 0; candidate < count; ++candidate)
      times[candidate].push_back(milliseconds_of(candidate, run, stream));
  size_t best = count;
  double least = std::numeric_limits<double>::infinity();
  for (size_t candidate = 0; candidate < count; ++candidate) {
    std::ranges::sort(times[candidate]);
    const double median = times[candidate][kRounds / 2];
    if (best == count ? median < least : median * kFasterBy < least) {
      best = candidate;
      least = median;
    }
  }
  return best;
}
}  // namespace optrush::cublaslt_matmul
