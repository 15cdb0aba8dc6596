#pragma once
#include <optional>
#include <string>
#include <vector>

#include "report/numbers/statistics.h"

namespace optrush {
/// The intervals of a column as small bars, on one logarithmic axis with a mark at 1.00.
struct Bars {
  size_t column = 0;                               ///< of the table
  std::vector<std::optional<Interval>> intervals;  ///< by row

  /// Where a bar lies, of 0 (left end of the axis) to 1.
  struct Place {
    double low = 0, high = 0, one = 0;
    int side = 0;  ///< 1: all of it is above 1.00, -1: below, 0: it holds 1.00
  };
  /// None where a row has no interval.
  std::optional<Place> place(size_t row) const;
  /// "··│····━·": always as many characters; spaces where there is none.
  std::string text(size_t row) const;
};
}  // namespace optrush
