#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "optrush/tensor.h"

namespace optrush {
/// What ranks of one plan send each other from host memory: it arrives at the ranks that are planned after
/// the sender. Tensors of the simulated device have no values, so they are not kept.
class PlannedMail {
 public:
  /// Ranks are those within the group.
  void put(const std::string& group, int64_t from, int64_t to, const Tensor& values);
  /// The next of `from` for `to`; none: it sent no more.
  std::optional<Tensor> take(const std::string& group, int64_t from, int64_t to);

 private:
  std::map<std::tuple<std::string, int64_t, int64_t>, std::deque<Tensor>> sent_;
};
}  // namespace optrush
