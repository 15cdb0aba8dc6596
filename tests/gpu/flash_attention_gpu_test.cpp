// flash_attention on a GPU. The kernel for the architecture runs, and its losses equal the plain form's. Its
// halves in a ring equal the whole, and packed documents equal separate ones.
#include "model/binder.h"
#include "on_gpu.h"
#include "optrush/gpu_kernel.h"
#include "support/attention_ring.h"
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
    spec.model["dim"] = 256;  // every kernel supports heads of 64
    spec.train.seq_len = 128;
    spec.device = "cuda";
    Trained trained(spec, {}, at::Device(at::kCUDA, 0));
    const Json result = trained.train();
    return {losses(result), Json(trained.session().log().notes()).dump()};
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
    EXPECT_NE(fused.notes.find("the kernel '" + std::string(kernel) + "' (as asked"), std::string::npos);
  }
}

TEST_F(FlashAttentionOnGpu, AutoChoosesCudnnOnHopperAndFlashOnAmpereAndAda) {
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

/// The attention of the first block of a model on the GPU.
class Resolved {
 public:
  explicit Resolved(const char* kernel)
      : trained_(spec_of(kernel), {}, at::Device(at::kCUDA, 0)), bind_(trained_.session().recipe()) {}
  AttentionForwardBackward halves() { return bind_.attention_forward_backward(module()); }
  Ops::Attention::Fn attention() { return bind_.attention(module()); }

 private:
  static RunSpec spec_of(const char* kernel) {
    RunSpec spec = nano_spec({{"flash_attention", {{"kernel", kernel}}}});
    spec.device = "cuda";
    return spec;
  }
  const Module& module() {
    for (const auto& child : trained_.session().units().at(1)->children)
      for (const Module& module : child->modules)
        if (module.role == "attention") return module;
    throw std::logic_error("a block without attention");
  }
  Trained trained_;
  Binder bind_;
};

AttentionInputs inputs_on_gpu(AttentionShape shape) {
  shape.width = 64;
  return attention_inputs(shape, at::TensorOptions(at::kBFloat16).device(at::kCUDA));
}

AttentionInputs in_double(AttentionInputs inputs) {
  for (Tensor* tensor : {&inputs.q, &inputs.k, &inputs.v, &inputs.gradient})
    *tensor = tensor->to(at::kDouble);
  return inputs;
}

constexpr double kBf16 = 5e-2;

TEST_F(FlashAttentionOnGpu, RingOfHalvesEqualsTheWhole) {
  for (const char* kernel : {"flash", "efficient", "cudnn"}) {
    SCOPED_TRACE(kernel);
    Resolved resolved(kernel);
    for (const auto& shape : {AttentionShape{.groups = 2, .queries = 240, .keys = 240, .causal = true},
                              AttentionShape{.groups = 2, .queries = 200, .keys = 328, .causal = false}}) {
      const auto inputs = inputs_on_gpu(shape);
      const auto expected = attention_by_formula(in_double(inputs));
      EXPECT_LT(difference(attention_by_forward_backward(resolved.halves(), inputs), expected), kBf16);
      for (const int64_t parts : {2, 3, 4})
        EXPECT_LT(difference(attention_by_ring(resolved.halves(), inputs, parts), expected), kBf16) << parts;
    }
  }
}

TEST_F(FlashAttentionOnGpu, HalvesApplyCausalAndNonCausalWindows) {
  for (const char* kernel : {"flash", "efficient", "cudnn"})
    for (const bool causal : {true, false})
      for (const int64_t window : {1, 30, 100}) {
        SCOPED_TRACE(std::string(kernel) + (causal ? " causal" : "") + ", window " + std::to_string(window));
        Resolved resolved(kernel);
        auto inputs = inputs_on_gpu({.groups = 2, .queries = 128, .keys = 128, .causal = causal});
        inputs.args.window = window;
        EXPECT_LT(difference(attention_by_forward_backward(resolved.halves(), inputs),
                             attention_by_formula(in_double(inputs))),
                  kBf16);
      }
}

/// Hopper, and Blackwell of data centers: cuDNN has no kernels for soft caps and other widths elsewhere.
bool has_all_graphs() {
  const auto architecture = gpu_architecture();
  return architecture == "sm_90" || architecture.starts_with("sm_10");
}

TEST_F(FlashAttentionOnGpu, GraphsOfCudnnCapScores) {
  if (!has_all_graphs()) GTEST_SKIP() << "cuDNN has no kernel for them on " << gpu_architecture();
  Resolved resolved("cudnn");
  for (const int64_t window : {0, 30}) {
    auto inputs = inputs_on_gpu({.groups = 2, .queries = 128, .keys = 128, .causal = true});
    inputs.args.soft_cap = 1.5;
    inputs.args.window = window;
    EXPECT_LT(difference(attention_by_forward_backward(resolved.halves(), inputs),
                         attention_by_formula(in_double(inputs))),
              kBf16)
        << window;
  }
}

TEST_F(FlashAttentionOnGpu, GraphsOfCudnnTakeValuesOfAnotherWidth) {
  if (!has_all_graphs()) GTEST_SKIP() << "cuDNN has no kernel for them on " << gpu_architecture();
  Resolved resolved("cudnn");
  auto inputs = inputs_on_gpu({.groups = 4, .queries = 128, .keys = 128, .causal = true});
  inputs.v = inputs.v.narrow(3, 0, 32).contiguous();
  inputs.gradient = inputs.gradient.narrow(3, 0, 32).contiguous();
  EXPECT_LT(difference(attention_by_forward_backward(resolved.halves(), inputs),
                       attention_by_formula(in_double(inputs))),
            kBf16);
}

TEST_F(FlashAttentionOnGpu, PackedDocumentsEqualSeparateDocuments) {
  for (const char* kernel : {"auto", "flash", "efficient", "cudnn"})
    for (const bool causal : {true, false}) {
      SCOPED_TRACE(std::string(kernel) + (causal ? " causal" : ""));
      Resolved resolved(kernel);
      auto inputs = inputs_on_gpu({.groups = 4, .queries = 128, .keys = 128, .causal = causal});
      inputs.args.segments = segments_of({50, 78, 1, 120, 7}, 2, at::kCUDA);
      const auto expected = attention_by_formula(in_double(inputs));
      EXPECT_LT(difference(attention_by_forward_backward(resolved.halves(), inputs), expected), kBf16);

      for (Tensor* leaf : {&inputs.q, &inputs.k, &inputs.v}) leaf->requires_grad_();
      inputs.args.lse = true;
      const auto result = resolved.attention()(inputs.q, inputs.k, inputs.v, inputs.args);
      result.out.backward(inputs.gradient);
      const Attended under_autograd{
          result.out.detach(), result.lse, {inputs.q.grad(), inputs.k.grad(), inputs.v.grad()}};
      EXPECT_LT(difference(under_autograd, expected), kBf16);
    }
}
}  // namespace
}  // namespace optrush::testing
