#include "report/sections/bars.h"

#include <algorithm>
#include <cmath>

namespace optrush {
namespace {
constexpr int kCells = 10;

}  // namespace

std::optional<Bars::Place> Bars::place(size_t row) const {
  const auto usable = [](const std::optional<Interval>& i) {
    return i && i->low > 0 && std::isfinite(i->high);
  };
  const auto& shown = intervals.at(row);
  if (!usable(shown)) return std::nullopt;
  constexpr double kLeast = 0.01;  // around 1.00, so that equal runs also have an axis
  double low = -kLeast, high = kLeast;
  for (const auto& interval : intervals)
    if (usable(interval)) {
      low = std::min(low, std::log(interval->low));
      high = std::max(high, std::log(interval->high));
    }
  const auto at = [&](double x) { return (std::log(x) - low) / (high - low); };
  return Place{at(shown->low), at(shown->high), at(1), shown->low > 1 ? 1 : shown->high < 1 ? -1 : 0};
}

std::string Bars::text(size_t row) const {
  const auto bar = place(row);
  if (!bar) return std::string(kCells, ' ');
  // The axis has a cell on each side of 1.00. An interval without 1.00 never touches the cell of 1.00.
  const auto cell = [](double at) { return static_cast<int>(std::lround(at * (kCells - 1))); };
  const int one = std::clamp(cell(bar->one), 1, kCells - 2);
  int first = cell(bar->low), last = cell(bar->high);
  if (bar->side > 0) {
    first = std::max(first, one + 1);
    last = std::max(last, first);
  } else if (bar->side < 0) {
    last = std::min(last, one - 1);
    first = std::min(first, last);
  } else {
    first = std::min(first, one);
    last = std::max(last, one);
  }
  std::string text;
  for (int i = 0; i < kCells; ++i) {
    const bool in = first <= i && i <= last;
    text += i == one ? (in ? "┿" : "│") : in ? "━" : "·";
  }
  return text;
}
}  // namespace optrush
