#pragma once
#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/seconds_since.h"

namespace optrush {
/// Seconds spent in each named part of some work. Times of one part are added up. Parts are in order of first
/// use.
class PartTimes {
 public:
  /// Runs `piece` and adds its time to the part. The time of a nested call counts for both parts.
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
