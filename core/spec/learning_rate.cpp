#include "spec/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

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
}  // namespace optrush
