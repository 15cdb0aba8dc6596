#pragma once
#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "results/run_result.h"

namespace optrush {
/// The training and validation losses of a run.
struct Losses {
  std::span<const StepResult> steps;
  std::span<const ValidationPoint> validation;
};

/// The loss at `place`, linearly interpolated between points in order of `at`; none before the first and
/// after the last point.
template <class Point, class Place>
std::optional<double> loss_between(const std::vector<Point>& points, Place place, Place Point::*at) {
  const auto next = std::ranges::lower_bound(points, place, {}, at);
  if (next == points.end()) return std::nullopt;
  if ((*next).*at == place) return next->loss;
  if (next == points.begin()) return std::nullopt;
  const Point& before = *std::prev(next);
  const double part = static_cast<double>(place - before.*at) / static_cast<double>((*next).*at - before.*at);
  return before.loss + part * (next->loss - before.loss);
}

/// Mean losses over the last third of the tokens that both runs have trained on.
struct Worse {
  double loss = 0, other = 0;
  bool validated = false;  ///< whether these are validation losses; otherwise training losses
};

/// Whether a run's loss is clearly higher than another's after the same number of tokens: by more than 1 %.
/// It compares validation losses if both have one in that third (or one on each side of it). Otherwise,
/// unless one of them is validated only later, it compares training losses, whose difference must also exceed
/// four standard errors. None: the loss is not clearly higher, or there are too few steps.
std::optional<Worse> trains_worse(const Losses& subject, const Losses& reference);
}  // namespace optrush
