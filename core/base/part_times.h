#pragma once
#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/seconds_since.h"

namespace optrush {
/// Seconds of each part of some work, added up over its pieces; parts in the order of their first piece.
class PartTimes {
 public:
  /// Runs a piece of the part. Pieces inside of another count in both.
  template <class Piece>
  decltype(auto) time(std::string_view part, Piece&& piece) {
    struct Clock {
      PartTimes& times;
      std::string_view part;
      std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
      ~Clock() { times.add(part, seconds_since(start)); }
    } clock{*this, part};
    return std::forward<Piece>(piece)();
  }
  void add(std::string_view part, double seconds) {
    const auto found = std::ranges::find(seconds_, part, &Part::first);
    if (found == seconds_.end())
      seconds_.emplace_back(part, seconds);
    else
      found->second += seconds;
  }

  using Part = std::pair<std::string, double>;
  const std::vector<Part>& seconds() const { return seconds_; }

 private:
  std::vector<Part> seconds_;
};
}  // namespace optrush
