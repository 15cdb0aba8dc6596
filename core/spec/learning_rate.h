#pragma once
#include <cstdint>

#include "optrush/spec.h"

namespace optrush {
/// Of step 0, 1, …: rises by equal parts to train.lr, which step lr_warmup has, then falls to the share
/// lr_min of it, which step lr_steps and every later one has. The cosine is half a period (arXiv:1608.03983,
/// one cycle).
double learning_rate(const TrainSpec& train, int64_t step);
}  // namespace optrush
