#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "optrush/tensor.h"

namespace optrush {
/// Messages from host memory between the ranks of one plan. They arrive at ranks that are planned after the
/// sender. Tensors of the simulated device have no values and are not kept.
class PlannedMail {
 public:
  /// Ranks are numbered within the group.
  void put(const std::string& group, int64_t from, int64_t to, const Tensor& values) {
    sent_[{group, from, to}].push_back(values.clone());
  }
  /// Takes the next message of `from` to `to`; none if there is no other.
  std::optional<Tensor> take(const std::string& group, int64_t from, int64_t to) {
    auto& waiting = sent_[{group, from, to}];
    if (waiting.empty()) return std::nullopt;
    Tensor next = std::move(waiting.front());
    waiting.pop_front();
    return next;
  }

 private:
  std::map<std::tuple<std::string, int64_t, int64_t>, std::deque<Tensor>> sent_;
};
}  // namespace optrush
