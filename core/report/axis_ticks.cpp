#include "report/axis_ticks.h"

#include <cmath>

namespace optrush {
namespace {
/// Fewer stand apart on an axis of 220 pixels.
constexpr size_t kMostTicks = 9;

/// The ticks of `candidates` (growing) around `low` and `high`.
std::vector<double> around(const std::vector<double>& candidates, double low, double high) {
  std::vector<double> ticks;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const bool before = i + 1 < candidates.size() && candidates[i + 1] <= low;
    const bool after = i > 0 && candidates[i - 1] >= high;
    if (!before && !after) ticks.push_back(candidates[i]);
  }
  return ticks;
}

/// Every `stride`-th power of a base, from below `low` to above `high`.
std::vector<double> powers(double base, int stride, double low, double high) {
  const auto at = [&](double x) { return std::log(x) / std::log(base) / stride; };
  std::vector<double> ticks;
  for (double i = std::floor(at(low)); i <= std::ceil(at(high)); ++i)
    ticks.push_back(std::pow(base, i * stride));
  return around(ticks, low, high);
}
}  // namespace

std::vector<double> log_ticks(double low, double high) {
  std::vector<double> fine;
  for (const double decade : powers(10, 1, low / 10, high))
    for (const double step : {1.0, 2.0, 5.0}) fine.push_back(step * decade);
  std::vector<double> ticks = around(fine, low, high);
  for (int stride = 1; ticks.size() > kMostTicks; ++stride) ticks = powers(10, stride, low, high);
  return ticks;
}

std::vector<double> log_byte_ticks(double low, double high) {
  std::vector<double> ticks = powers(2, 1, low, high);
  for (int stride = 2; ticks.size() > kMostTicks; ++stride) ticks = powers(2, stride, low, high);
  return ticks;
}

std::vector<double> byte_ticks(double high) {
  constexpr double kMostSteps = 6;
  double step = 1;
  while (high / step > kMostSteps) step *= 2;
  std::vector<double> ticks = {0};
  while (ticks.back() < high) ticks.push_back(ticks.back() + step);
  return ticks;
}
}  // namespace optrush
