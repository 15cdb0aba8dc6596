#include "pack.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace optrush::packing {
Rows pack(std::span<const int64_t> lengths, int64_t capacity) {
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  const auto length_of = [&](int64_t document) { return lengths[static_cast<size_t>(document)]; };
  std::ranges::stable_sort(order, std::greater(), length_of);
  Rows rows;
  std::set<std::pair<int64_t, int64_t>> open;  // room that is left, and the row's number
  for (const int64_t document : order) {
    auto row = static_cast<int64_t>(rows.size());
    int64_t room = capacity;
    if (const auto found = open.lower_bound({length_of(document), 0}); found != open.end()) {
      std::tie(room, row) = *found;
      open.erase(found);
    } else {
      rows.emplace_back();
    }
    rows[static_cast<size_t>(row)].push_back(document);
    open.emplace(room - length_of(document), row);
  }
  for (auto& row : rows) std::ranges::sort(row);
  return rows;
}
}  // namespace optrush::packing
