#include "spec/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "optrush/error.h"

namespace optrush {
double learning_rate(const TrainSpec& train, int64_t step) {
  if (step < train.lr_warmup)
    return train.lr * static_cast<double>(step + 1) / static_cast<double>(train.lr_warmup + 1);
  if (train.lr_decay == "none") return train.lr;
  const double done = std::min(1.0, static_cast<double>(step - train.lr_warmup) /
                                        static_cast<double>(train.lr_steps - train.lr_warmup));
  const double left = train.lr_decay == "linear" ? 1 - done : (1 + std::cos(std::numbers::pi * done)) / 2;
  return train.lr * (train.lr_min + (1 - train.lr_min) * left);
}

void check_schedule(const TrainSpec& train, int64_t first) {
  if (train.lr_decay == "none" || first < train.lr_steps) return;
  throw Error(ErrorCode::invalid_value,
              "the state is from step " + std::to_string(first) +
                  ", but the schedule of the learning rate ends at step " + std::to_string(train.lr_steps) +
                  " (train.lr_steps) of the whole training, so no step of this training would follow it",
              "for a new schedule, take the weights alone: start = { state = ..., weights_only = true }. To "
              "continue the schedule, raise train.lr_steps. For a constant rate, set lr_decay = \"none\"");
}
}  // namespace optrush
