#include "train/step_watch.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "measure/memory.h"

namespace optrush {
namespace {
constexpr size_t kQuarters = 4, kStepsForQuarters = 8;

/// Memory must grow from each quarter to the next. A single jump, for example of a cache that fills late, is
/// not a leak.
bool grows_by_quarters(const std::vector<int64_t>& bytes) {
  const auto begin_of = [&](size_t quarter) {
    return bytes.begin() + static_cast<std::ptrdiff_t>(quarter * bytes.size() / kQuarters);
  };
  for (size_t quarter = 1; quarter < kQuarters; ++quarter) {
    const auto begin = begin_of(quarter);
    if (*std::max_element(begin_of(quarter - 1), begin) >= *std::min_element(begin, begin_of(quarter + 1)))
      return false;
  }
  return true;
}

/// A few steps may grow by chance, but not by the same amount each time.
bool grows_evenly(const std::vector<int64_t>& bytes) {
  if (bytes.size() < kQuarters) return false;
  const int64_t first = bytes[1] - bytes[0];
  for (size_t i = 1; i < bytes.size(); ++i)
    if (bytes[i] - bytes[i - 1] != first) return false;
  return first > 0;
}
}  // namespace

std::optional<double> MemoryGrowth::per_step() const {
  if (!(bytes_.size() >= kStepsForQuarters ? grows_by_quarters(bytes_) : grows_evenly(bytes_)))
    return std::nullopt;
  return static_cast<double>(bytes_.back() - bytes_.front()) / static_cast<double>(bytes_.size() - 1);
}

bool StepWatch::looks_at_update(int64_t i, int64_t timed) const {
  constexpr int64_t kUpdates = 8;
  return is_measured() && i * kUpdates / timed != (i + 1) * kUpdates / timed;
}

void StepWatch::before(int64_t i, int64_t timed) {
  if (looks_at_update(i, timed)) moved_.before();
}

void StepWatch::after(int64_t i, int64_t timed) {
  if (looks_at_update(i, timed)) moved_.after();
  host_memory_.after_step(cpu_allocated());
  if (!session_.device().is_cpu()) device_memory_.after_step(allocated_now(session_.device()));
}

void StepWatch::warn() const {
  if (!is_measured()) return;
  const std::pair<const MemoryGrowth&, const char*> all[] = {{device_memory_, "on the device"},
                                                             {host_memory_, "in the host's memory"}};
  for (const auto& [memory, where] : all)
    if (const auto bytes = memory.per_step())
      session_.log().warn(
          "tensors " + std::string(where) + " grow by " + std::to_string(std::llround(*bytes)) +
          " bytes per step: a plugin keeps tensors of past steps, so a long run will run out of memory");
  if (const std::string text = moved_.warning(); !text.empty()) session_.log().warn(text);
}
}  // namespace optrush
