#include "train/step_watch.h"

#include <cmath>
#include <utility>

#include "measure/memory.h"

namespace optrush {
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
