#pragma once
#include <gtest/gtest.h>

#include "measure/gpus.h"

namespace optrush::testing {
/// Skips without a CUDA device and names the reason.
class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto& cuda = load_cuda(); !cuda) GTEST_SKIP() << "no CUDA device: " << cuda.reason;
  }
};
}  // namespace optrush::testing
