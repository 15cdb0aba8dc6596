#include "distributed/planned_mail.h"

#include <utility>

namespace optrush {
void PlannedMail::put(const std::string& group, int64_t from, int64_t to, const Tensor& values) {
  sent_[{group, from, to}].push_back(values.clone());
}

std::optional<Tensor> PlannedMail::take(const std::string& group, int64_t from, int64_t to) {
  auto& waiting = sent_[{group, from, to}];
  if (waiting.empty()) return std::nullopt;
  Tensor next = std::move(waiting.front());
  waiting.pop_front();
  return next;
}
}  // namespace optrush
