#pragma once
#include <vector>

#include "analysis/quantities.h"

namespace optrush {
// The parts of quantities(). A new number is an entry in one of them: every output, its documentation
// included, is made from it.
/// Names, speed, memory and utilization of a rung.
std::vector<Quantity> rung_quantities();
/// Phases and costs of a step, losses, costs of a run, published figures, and rates of operators.
std::vector<Quantity> step_quantities();

namespace quantity_parts {
using MaybeNumber = std::optional<double>;
using A = const Analysis&;
using R = const Row&;

using ForRow = decltype(Quantity::value);
inline constexpr auto json = &Quantity::json, grids = &Quantity::grid, comparisons = &Quantity::compared,
                      trackers = &Quantity::tracked, runs = &Quantity::run;

/// A number; without a title it is in no table.
inline Quantity number(std::string csv, std::string title, std::string doc, Unit unit, ForRow value = {}) {
  return {.csv = std::move(csv),
          .unit = unit,
          .value = std::move(value),
          .title = std::move(title),
          .doc = std::move(doc)};
}
inline Quantity word(std::string csv, std::string doc, decltype(Quantity::word) word) {
  return {.csv = std::move(csv), .word = std::move(word), .doc = std::move(doc)};
}

/// A member of a row.
template <auto Member>
MaybeNumber field(A, R row) {
  return row.*Member;
}

/// A member of a run's result.
template <auto Member>
MaybeNumber member(const RunResult& run) {
  return run.*Member;
}

/// A member of something that a row may lack.
template <class T>
MaybeNumber member_of(const std::optional<T>& object, auto T::*member) {
  return object ? MaybeNumber((*object).*member) : std::nullopt;
}
}  // namespace quantity_parts
}  // namespace optrush
