// Draws of LibTorch's default generator are the same in each run of a test. LibTorch seeds it from the
// system.
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <memory>

namespace optrush::testing {
namespace {
class SeededDraws final : public ::testing::EmptyTestEventListener {
  // at::manual_seed also asks for GPUs, which fixes the answer before a test has loaded LibTorch's CUDA
  // library.
  void OnTestStart(const ::testing::TestInfo&) override {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    generator.set_current_seed(1);
  }
};

const bool registered = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(std::make_unique<SeededDraws>().release());
  return true;
}();
}  // namespace
}  // namespace optrush::testing
