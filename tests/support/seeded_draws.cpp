// Draws of LibTorch's default generator are the same in each run of a test. LibTorch seeds it from the
// system.
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <memory>

namespace optrush::testing {
namespace {
class SeededDraws final : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo&) override { at::manual_seed(1); }
};

const bool registered = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(std::make_unique<SeededDraws>().release());
  return true;
}();
}  // namespace
}  // namespace optrush::testing
