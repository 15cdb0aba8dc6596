// FlashAttention (arXiv:2205.14135, 2307.08691): attention in tiles with a running softmax, so the S x S
// matrix is never stored: memory linear in S, and far less traffic. The plugin sets the kernel of LibTorch's
// scaled_dot_product_attention: flash, memory-efficient (arXiv:2112.05682) or cuDNN's; kernel_order.h has the
// order in which "auto" tries them. cuDNN makes a plan for each new shape. Here shapes stay the same, so this
// costs no time in a step. Below a few hundred positions the gain is small.
//
// If the log-sum-exp is requested, for packed documents, and in a ring, the plugin calls the kernel's own
// operators (fused_kernel.h). The kernel is found at the first call.
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <mutex>

#include "cpu/attention.h"
#include "fused_kernel.h"
#include "kernel_order.h"
#include "optrush/gpu_kernel.h"
#include "optrush/plugin.h"

namespace {
using namespace optrush;
using flash::FusedKernel;
using flash::Kernel;

// The numbers of sdp::SDPBackend.
constexpr std::array<const char*, 4> kKernels = {"math", "flash", "efficient", "cudnn"};
int64_t number_of(const std::string& kernel) {
  return std::ranges::find(kKernels, kernel) - kKernels.begin();
}

/// Casts x as autocast does for scaled_dot_product_attention. Autocast does not know the operators of the
/// kernels.
Tensor lowered(const Tensor& x) {
  if (x.scalar_type() == at::kDouble) return x;
  return x.to(autocast_type(x.device().type()).value_or(x.scalar_type()));
}

/// Copies keys or values (B, H_kv, S, K) for each of the heads that share them.
Tensor for_each_head(const Tensor& x, int64_t heads) { return x.repeat_interleave(heads / x.size(1), 1); }
/// The sum of the copies' gradients.
Tensor of_shared(const Tensor& gradient, int64_t shared) {
  return gradient.unflatten(1, {shared, -1}).sum(2);
}

/// True where a query sees a key: (S, S), or (B, 1, S, S) for packed rows.
Tensor visible(const AttentionArgs& args, int64_t positions, const at::TensorOptions& options) {
  Tensor mask;
  if (args.segments.defined()) {
    const Tensor& ids = args.segments.ids;
    mask = ids.unsqueeze(-1).eq(ids.unsqueeze(-2)).unsqueeze(1);
  } else {
    mask = at::ones({positions, positions}, options.dtype(at::kBool));
  }
  if (args.causal) mask = mask.tril();
  return args.has_window(positions) ? mask.triu(1 - args.window) : mask;
}

/// The same mask as a summand of the scores.
Tensor added_to_scores(const Tensor& visible, const Tensor& q) {
  const double never = -std::numeric_limits<double>::infinity();
  return at::zeros(visible.sizes(), q.options()).masked_fill(visible.logical_not(), never);
}

class FlashAttention final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    kernel_ = options.string("kernel");
    recipe.on(Event::ready, Phase::base, [this](Run& run) { choose(run); });
    std::vector<Feature> offers = {feature::fp64};
    if (!asks_for_cudnn() || flash::cudnn::built())
      offers.insert(offers.end(), {feature::segments, feature::window});
    const Traits halves = {.trace = Trace::aten, .capturable = true, .offers = offers};
    if (asks_for_cudnn() && flash::cudnn::built())
      offers.insert(offers.end(), {feature::value_width, feature::soft_cap});
    offers.push_back(feature::lse);
    recipe.ops.attention.replace([this](const Tensor& q, const Tensor& k, const Tensor& v,
                                        const AttentionArgs& args) { return attend(q, k, v, args); },
                                 {.trace = Trace::aten, .capturable = true, .offers = std::move(offers)});
    recipe.ops.attention_forward_backward.replace([this] { return this->halves(); }, halves);
  }

 private:
  bool asks_for_cudnn() const { return kernel_ == "cudnn"; }

  void choose(Run& run) {
    run_ = &run;
    const bool any = kernel_ == "auto";
    if (run.device().is_cpu() && (kernel_ == "efficient" || kernel_ == "cudnn"))
      throw Skip("the kernel '" + kernel_ + "' exists on GPUs only",
                 "use kernel = \"flash\" or \"auto\" on a CPU");
    auto& context = at::globalContext();
    context.setSDPUseFlash(any || kernel_ == "flash");
    context.setSDPUseMemEfficient(any || kernel_ == "efficient");
    context.setSDPUseCuDNN(any || kernel_ == "cudnn");
    context.setSDPUseMath(false);
  }

  AttentionOut attend(const Tensor& q, const Tensor& shared_k, const Tensor& shared_v,
                      const AttentionArgs& args) {
    if (!fused_) fused_ = found_kernel(lowered(q), lowered(shared_k), lowered(shared_v), args);
    const Tensor k = as_the_kernel_takes_it(shared_k, q), v = as_the_kernel_takes_it(shared_v, q);
    const bool grouped = q.size(1) != k.size(1), windowed = args.has_window(q.size(2));
    const bool by_graphs_only = args.soft_cap != 0 || v.size(3) != k.size(3);
    if (by_graphs_only && tracing())
      throw Error("graphs of cuDNN cannot be compiled",
                  "remove 'compile' or 'flash_attention' from the stack");
    // Documents differ from batch to batch: a graph can read their positions, but not their lengths.
    const bool masked = tracing() ? args.segments.defined() || windowed : windowed && !windows_in_kernel(q);
    if (masked) {
      if (args.lse)
        throw Error(
            "the log-sum-exp of packed documents or a sliding window needs a kernel that runs eagerly, in "
            "bf16 or fp16 on a GPU",
            "remove 'compile' from the stack, or stack mixed_precision");
      Tensor mask = visible(args, q.size(2), q.options());
      if (!tracing()) mask = added_to_scores(mask, lowered(q));
      return {at::scaled_dot_product_attention(q, k, v, mask, /*dropout_p=*/0.0, /*is_causal=*/false,
                                               args.scale, grouped),
              {}};
    }
    if (args.lse || args.segments.defined() || windowed || by_graphs_only ||
        fused_->runs_own(lowered(q), lowered(k), lowered(v), args)) {
      auto result = fused_->forward(lowered(q), lowered(k), lowered(v), args);
      if (!args.lse) result.lse.reset();
      return result;
    }
    return {
        at::scaled_dot_product_attention(q, k, v, {}, /*dropout_p=*/0.0, args.causal, args.scale, grouped),
        {}};
  }

  /// Layers share it.
  Differentiable own_kernel(const flash::cpu::Scores& scores) {
    const std::lock_guard lock(mutex_);
    const auto found = own_kernels_.find(scores);
    if (found != own_kernels_.end()) return found->second;
    run_->note("causal attention runs the plugin's own kernel");
    return own_kernels_.emplace(scores, flash::cpu::attention(scores)).first->second;
  }

  /// FlashAttention's kernel on a GPU has windows, and no fp32.
  static bool windows_in_kernel(const Tensor& q) {
    const auto type = lowered(q).scalar_type();
    return form_of(q) == at::kCPU || type == at::kBFloat16 || type == at::kHalf;
  }

  AttentionForwardBackward halves() {
    const auto forward = [this](const Tensor& q, const Tensor& k, const Tensor& v,
                                const AttentionArgs& args) {
      const at::NoGradGuard no_grad;
      if (!fused_) fused_ = found_kernel(q, k, v, args);
      return fused_->forward(q, as_the_kernel_takes_it(k, q), as_the_kernel_takes_it(v, q), args);
    };
    const auto backward = [this](const Tensor& gradient, const Tensor& q, const Tensor& k, const Tensor& v,
                                 const Tensor& out, const Tensor& lse, const Tensor& lse_gradient,
                                 const AttentionArgs& args) {
      const at::NoGradGuard no_grad;
      if (!fused_) fused_ = found_kernel(q, k, v, args);
      // A caller that merges outputs may keep them in a wider type than the kernel accepts.
      const auto type = q.scalar_type();
      auto gradients = fused_->backward(gradient.to(type), q, as_the_kernel_takes_it(k, q),
                                        as_the_kernel_takes_it(v, q), out.to(type), lse, lse_gradient, args);
      if (copies_) {
        gradients[1] = of_shared(gradients[1], k.size(1));
        gradients[2] = of_shared(gradients[2], v.size(1));
      }
      return gradients;
    };
    return {forward, backward};
  }

  /// Sets the order of `auto` on a GPU. At the first choice of a process, LibTorch overwrites the order with
  /// its default.
  std::string put_in_order() const {
    const auto architecture = gpu_architecture();
    const auto names = kernel_order(architecture);
    if (names.empty()) return "auto: LibTorch's order on " + architecture;
    std::vector<int64_t> order;
    std::string said;
    for (const std::string& name : names) {
      order.push_back(number_of(name));
      said += (said.empty() ? "" : " before ") + name;
    }
    order.push_back(number_of("math"));
    at::globalContext().setSDPPriorityOrder(order);
    return "auto: " + said + " on " + architecture;
  }

  /// The kernel that LibTorch chooses for such inputs. LibTorch falls back to the plain form silently; a rung
  /// that claims a kernel must run it.
  std::unique_ptr<FusedKernel> found_kernel(const Tensor& q, const Tensor& k, const Tensor& v,
                                            const AttentionArgs& args) {
    const bool grouped = q.size(1) != k.size(1), other_width = v.size(3) != k.size(3);
    std::string refusal;
    const auto choose = [&](const Tensor& keys, const Tensor& values) -> int64_t {
      refusal.clear();
      try {
        return at::_fused_sdp_choice(q, keys, values, {}, 0.0, args.causal, args.scale,
                                     q.size(1) != keys.size(1));
      } catch (const c10::Error& e) {  // on a GPU LibTorch throws if no kernel supports them
        refusal = " (LibTorch: " + std::string(e.what_without_backtrace()) + ")";
        return 0;
      }
    };
    // LibTorch is not asked about values of another width: only graphs of cuDNN compute them.
    int64_t choice = choose(k, other_width ? k : v);
    std::string why = kernel_ == "auto" ? "auto" : "as asked";
    if (kernel_ == "auto" && form_of(q) == at::kCUDA) {
      why = put_in_order();
      choice = choose(k, other_width ? k : v);
    }
    if (choice < 1 && grouped) {
      choice = choose(for_each_head(k, q.size(1)), for_each_head(v, q.size(1)));
      copies_ = choice >= 1;
      why += ", which cannot share keys and values between heads: they are copied for each head";
    }
    if (choice < 1 || choice >= static_cast<int64_t>(kKernels.size()))
      throw Error(
          "no fused attention kernel supports head width " + std::to_string(q.size(-1)) + " in " +
              std::string(c10::toString(q.scalar_type())) + " on " + q.device().str() + refusal,
          "use bf16 or fp16 (mixed_precision), a head width that is a multiple of 8, or remove the rung");
    const std::string name = kKernels[static_cast<size_t>(choice)];
    run_->note("attention runs the kernel '" + name + "' (" + why + ")");
    std::shared_ptr<flash::cudnn::Attention> graphs;
    if (asks_for_cudnn() && q.is_cuda())
      graphs = std::make_shared<flash::cudnn::Attention>(gpu_architecture());
    const bool by_graphs = graphs && graphs->takes(k, v, args);
    const std::string computed_by = by_graphs ? "graphs of cuDNN" : "the kernel 'flash'";
    if (args.segments.defined() && name == "cudnn") run_->note("packed documents run " + computed_by);
    if (args.window != 0 && q.is_cuda() && name != "flash")
      run_->note("layers with a sliding window run " + computed_by);
    if (other_width && by_graphs) run_->note("values of another width than keys run " + computed_by);
    if (args.soft_cap != 0 && by_graphs) run_->note("soft caps of scores run " + computed_by);
    return std::make_unique<FusedKernel>(
        form_of(q) == at::kCPU ? Kernel::cpu
        : name == "flash"      ? Kernel::flash
        : name == "efficient"  ? Kernel::efficient
                               : Kernel::cudnn,
        [this](const flash::cpu::Scores& scores) { return own_kernel(scores); }, std::move(graphs));
  }

  Tensor as_the_kernel_takes_it(const Tensor& shared, const Tensor& q) const {
    return copies_ && shared.size(1) != q.size(1) ? for_each_head(shared, q.size(1)) : shared;
  }

  std::string kernel_;
  Run* run_ = nullptr;
  bool copies_ = false;                 ///< the kernel takes as many heads of keys and values as of queries
  std::unique_ptr<FusedKernel> fused_;  ///< found at the first call
  std::mutex mutex_;                    ///< a backward that recomputes may run on another thread
  std::map<flash::cpu::Scores, Differentiable> own_kernels_;
};
}  // namespace

OPTRUSH_PLUGIN(FlashAttention, R"json({
  "name": "flash_attention", "version": "0.1.0", "kind": "optimization", "effect": "rounding",
  "summary": "fused attention that never stores the S x S matrix",
  "check": [{}, {"options": {"kernel": "efficient"}}, {"options": {"kernel": "flash"}, "with": ["mixed_precision"]},
            {"options": {"kernel": "cudnn"}, "with": ["mixed_precision"]}],
  "options": [
    {"name": "kernel", "type": "string", "default": "auto", "choices": ["auto", "flash", "efficient", "cudnn"],
     "doc": "fused kernel; auto: cuDNN on Hopper, flash on Ampere, Ada and Blackwell workstations, otherwise LibTorch's choice; cudnn also for sliding windows and packed documents, which auto leaves to flash, for soft caps, and for values of another width than keys; a note of the run names it"}
  ]
})json");
