#pragma once
#include <cstdint>

#include "optrush/spec.h"

namespace optrush {
/// The learning rate of a step, counted from 0. It rises linearly to train.lr at step lr_warmup. Then, unless
/// lr_decay is "none", it falls to lr_min * train.lr at step lr_steps and stays there. The cosine schedule is
/// half a period (arXiv:1608.03983 without restarts).
double learning_rate(const TrainSpec& train, int64_t step);
/// Throws an Error if a training that continues from the state of step `first` is past its schedule.
void check_schedule(const TrainSpec& train, int64_t first);
}  // namespace optrush
