#include "launch/run/metrics_tail.h"

#include <fstream>

#include "base/files.h"
#include "optrush/json.h"

namespace optrush {
std::optional<double> RunState::tokens_per_second() const {
  if (timed_seconds <= 0) return std::nullopt;
  return timed_tokens / timed_seconds;
}

const RunState& MetricsTail::update() {
  std::error_code unreadable;
  if (!std::filesystem::is_regular_file(file_, unreadable)) return state_;
  std::ifstream in(file_, std::ios::binary);
  if (!in.seekg(offset_)) return state_;
  const std::string added = rest_of(in);
  offset_ += static_cast<int64_t>(added.size());
  partial_ += added;
  size_t start = 0;
  for (size_t end; (end = partial_.find('\n', start)) != std::string::npos; start = end + 1)
    take(partial_.substr(start, end - start));
  partial_.erase(0, start);
  return state_;
}

void MetricsTail::take(const std::string& line) {
  const Json entry = Json::parse(line, nullptr, false);
  if (!entry.is_object()) return;
  const auto number = [&](const char* key) -> std::optional<double> {
    const auto it = entry.find(key);
    return it != entry.end() && it->is_number() ? std::optional(it->get<double>()) : std::nullopt;
  };
  const auto is = [&](const char* key, const Json& value) {
    const auto it = entry.find(key);
    return it != entry.end() && *it == value;
  };
  if (is("event", "phase")) {
    if (const auto it = entry.find("name"); it != entry.end() && it->is_string()) state_.phase = *it;
  } else if (is("event", "continued")) {
    state_.steps_before = state_.steps;
  } else if (is("event", "step")) {
    ++state_.steps;
    state_.loss = number("loss");
    if (is("timed", true)) {
      const auto processed = number("processed_tokens");
      state_.timed_tokens += processed ? *processed : number("tokens").value_or(0);
      state_.timed_seconds += number("seconds").value_or(0);
    }
  }
}
}  // namespace optrush
