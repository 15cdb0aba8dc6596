// flash_attention on a GPU: the kernel that the architecture asks for runs, and its losses are the plain
// form's.
#include "on_gpu.h"
#include "optrush/gpu_kernel.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
class FlashAttentionOnGpu : public OnGpu {
 protected:
  struct Outcome {
    std::vector<double> losses;
    std::string notes;
  };
  static Outcome run(std::vector<PluginUse> attention) {
    attention.push_back({"mixed_precision", Json::object()});
    RunSpec spec = nano_spec(std::move(attention));
    spec.model["dim"] = 256;  // heads of 64, which every kernel takes
    spec.train.seq_len = 128;
    spec.device = "cuda";
    Trained trained(spec, {}, at::Device(at::kCUDA, 0));
    const Json result = trained.train();
    return {losses(result), Json(trained.session().notes()).dump()};
  }
};

TEST_F(FlashAttentionOnGpu, EveryKernelTrainsLikeThePlainForm) {
  const Outcome plain = run({});
  for (const char* kernel : {"auto", "flash", "efficient", "cudnn"}) {
    SCOPED_TRACE(kernel);
    const Outcome fused = run({{"flash_attention", {{"kernel", kernel}}}});
    for (size_t i = 0; i < plain.losses.size(); ++i)
      EXPECT_NEAR(fused.losses[i], plain.losses[i], 1e-2 * plain.losses[i]);
    if (std::string(kernel) == "auto") continue;
    EXPECT_NE(fused.notes.find("the kernel '" + std::string(kernel) + "' (as asked)"), std::string::npos);
  }
}

TEST_F(FlashAttentionOnGpu, AutoTakesCudnnOnHopperAndFlashOnAmpereAndAda) {
  const auto notes = run({{"flash_attention", Json::object()}}).notes;
  const auto architecture = gpu_architecture();
  if (architecture == "sm_90") {
    EXPECT_NE(notes.find("'cudnn' (auto: cudnn before flash"), std::string::npos) << notes;
  } else if (architecture.starts_with("sm_8")) {
    EXPECT_NE(notes.find("'flash' (auto: flash before"), std::string::npos) << notes;
  } else {
    EXPECT_NE(notes.find("(auto: "), std::string::npos) << notes;
  }
}
}  // namespace
}  // namespace optrush::testing
