#pragma once
#include <optional>
#include <string>
#include <vector>

#include "report/numbers/statistics.h"

namespace optrush {
/// The intervals of a column as small bars on a common logarithmic axis with a mark at 1.00.
struct Bars {
  size_t column = 0;                               ///< column of the table
  std::vector<std::optional<Interval>> intervals;  ///< by row

  /// The position of a bar, from 0 (left end of the axis) to 1 (right end).
  struct Place {
    double low = 0, high = 0, one = 0;
    int side = 0;  ///< 1: above 1.00, -1: below, 0: contains 1.00
  };
  /// None if the row has no interval.
  std::optional<Place> place(size_t row) const;
  /// The bar as text, "··│····━·", always with the same number of characters; spaces if there is none.
  std::string text(size_t row) const;
};
}  // namespace optrush
