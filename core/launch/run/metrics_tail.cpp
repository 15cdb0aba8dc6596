#include "launch/run/metrics_tail.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "analysis/time_to_loss.h"
#include "optrush/error.h"
#include "results/run_result.h"

namespace optrush {
namespace {
constexpr size_t kMostShown = 200;

/// Adds the step of a line to the reported steps of a program. Returns the fault of the line; "" if
/// nothing is. Only steps have a schema.
std::string report(const std::string& line, Json entry, Json& steps) {
  if (!entry.is_object()) {
    const bool number = line.find("NaN") != std::string::npos || line.find("Infinity") != std::string::npos;
    return number ? "it has NaN or Infinity, which JSON lacks; write null" : "it is not a JSON object";
  }
  if (!entry.contains("event")) return "field 'event' is missing";
  if (entry["event"] != "step") return {};
  entry.erase("event");
  try {
    const StepResult step = fields_of<StepResult>().read(entry);
    if (step.step != std::ssize(steps))
      return "step " + std::to_string(step.step) + " comes where step " + std::to_string(steps.size()) +
             " is expected: report each step once, in order, by one rank";
    if (step.timed && (step.tokens == 0 || step.seconds == 0))
      return "a timed step has 0 tokens or 0 seconds";
  } catch (const Error& e) {
    return e.message();
  }
  steps.push_back(std::move(entry));
  return {};
}
}  // namespace

std::optional<double> RunState::tokens_per_second() const {
  if (timed_seconds <= 0) return std::nullopt;
  return timed_tokens / timed_seconds;
}

const RunState& MetricsTail::update(bool ended) {
  struct stat present {};
  if (stat(file_.c_str(), &present) != 0 || !S_ISREG(present.st_mode)) return state_;
  if (opened_.get() < 0 || present.st_ino != inode_ || present.st_size < offset_) {
    // Keeps the file open, because a new file could get the inode number of a removed one.
    opened_ = Descriptor(open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    state_ = {};
    partial_.clear();
    offset_ = 0;
  }
  struct stat now {};
  if (opened_.get() < 0 || fstat(opened_.get(), &now) != 0) return state_;
  inode_ = now.st_ino;
  if (now.st_size < offset_) return state_;
  std::string added(static_cast<size_t>(now.st_size - offset_), '\0');
  const ssize_t got = pread(opened_.get(), added.data(), added.size(), offset_);
  added.resize(got < 0 ? 0 : static_cast<size_t>(got));
  offset_ += std::ssize(added);
  partial_ += added;
  size_t start = 0;
  for (size_t end; (end = partial_.find('\n', start)) != std::string::npos; start = end + 1)
    read_line(partial_.substr(start, end - start));
  partial_.erase(0, start);
  if (ended && !partial_.empty()) read_line(std::exchange(partial_, {}));
  return state_;
}

void MetricsTail::read_line(const std::string& line) {
  const Json entry = Json::parse(line, nullptr, false);
  if (external_ && state_.problem.empty())
    if (std::string problem = report(line, entry, state_.reported); !problem.empty())
      state_.problem = problem + ": " + line.substr(0, kMostShown);
  if (!entry.is_object()) return;
  const auto number = [&](const char* key) -> std::optional<double> {
    const auto it = entry.find(key);
    return it != entry.end() && it->is_number() ? std::optional(it->get<double>()) : std::nullopt;
  };
  const auto set_phase = [&](const char* key) {
    if (const auto it = entry.find(key); it != entry.end() && it->is_string()) state_.phase = *it;
  };
  const auto is = [&](const char* key, const Json& value) {
    const auto it = entry.find(key);
    return it != entry.end() && *it == value;
  };
  if (is("event", "phase")) {
    set_phase("name");
  } else if (is("event", "progress")) {
    state_.steps = static_cast<int64_t>(number("steps").value_or(0));
    set_phase("phase");
  } else if (is("event", "continued")) {
    state_.steps_before = state_.steps;
  } else if (is("event", "length")) {
    state_.length = static_cast<int64_t>(number("steps").value_or(0));
  } else if (is("event", "step")) {
    ++state_.steps;
    state_.loss = number("loss");
    state_.seconds += number("seconds").value_or(0);
    add_loss();
    if (is("timed", true)) {
      const auto processed = number("processed_tokens");
      state_.timed_tokens += processed ? *processed : number("tokens").value_or(0);
      state_.timed_seconds += number("seconds").value_or(0);
    }
  } else if (is("event", "validation")) {
    if (const auto loss = number("loss"))
      state_.lowest_validation = std::min(state_.lowest_validation.value_or(*loss), *loss);
  }
}

void MetricsTail::add_loss() {
  auto& losses = state_.losses;
  if (!state_.loss) return losses.clear();
  if (std::ssize(losses) == kSmoothedSteps) losses.erase(losses.begin());
  losses.push_back(*state_.loss);
  if (std::ssize(losses) < kSmoothedSteps) return;
  const double mean = std::accumulate(losses.begin(), losses.end(), 0.0) / kSmoothedSteps;
  state_.lowest_mean = std::min(state_.lowest_mean.value_or(mean), mean);
}
}  // namespace optrush
