#pragma once
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "cpu/attention.h"
#include "cudnn/attention.h"
#include "optrush/differentiable.h"
#include "optrush/ops.h"

namespace optrush::flash {
enum class Kernel : uint8_t { cpu, flash, efficient, cudnn };

/// One of LibTorch's fused kernels, called by its operators: a forward with the log-sum-exp, and a backward
/// that takes any out and lse. Segments separate documents: a CPU gets one call per document, a GPU one call
/// for all. On a CPU the plugin's kernel (cpu/attention.h) computes the inputs that it takes. For LibTorch's
/// kernel on a CPU a sliding window is a mask, so hidden products are also computed. On a GPU a window bounds
/// the loop of flash. LibTorch's call of cuDNN has neither windows nor documents: flash computes them, or
/// graphs of cuDNN (cudnn/attention.h).
class FusedKernel {
 public:
  /// The plugin's kernel for CPUs. It outlives the calls.
  using OwnKernel = std::function<Differentiable(const cpu::Scores&)>;
  /// `graphs`: compute windows and documents; null: flash does.
  FusedKernel(Kernel kernel, OwnKernel own, std::shared_ptr<cudnn::Attention> graphs = nullptr)
      : kernel_(kernel), own_(std::move(own)), graphs_(std::move(graphs)) {}

  /// Whether the plugin's kernel runs: on a CPU, for inputs that it takes (a document, or a whole row). A
  /// compiler gets LibTorch's operator.
  bool runs_own(const Tensor& q, const Tensor& k, const Tensor& v, AttentionArgs) const;
  /// With autograd if it is enabled. The lse has a derivative if the arguments request it.
  AttentionOut forward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs&);
  /// {dq, dk, dv}. `out` and `lse` may include more keys than k. `lse_gradient` may be undefined.
  std::array<Tensor, 3> backward(const Tensor& gradient, const Tensor& q, const Tensor& k, const Tensor& v,
                                 const Tensor& out, const Tensor& lse, const Tensor& lse_gradient,
                                 const AttentionArgs&);

 private:
  AttentionOut forward_of(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs&);
  std::array<Tensor, 3> backward_of(const Tensor& gradient, const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& out, const Tensor& lse, const AttentionArgs&);
  void check_width(const Tensor& q) const;
  /// Soft caps, and values of another width than keys, are computed by graphs only.
  void check_taken(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs&) const;
  AttentionOut forward_whole(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs&);
  std::array<Tensor, 3> backward_whole(const Tensor& gradient, const Tensor& q, const Tensor& k,
                                       const Tensor& v, const Tensor& out, const Tensor& lse,
                                       const AttentionArgs&);

  bool runs_graphs(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs&) const;
  /// Inputs are q, k and v; outputs are out and lse.
  Differentiable by_graphs(const AttentionArgs&) const;

  /// (queries, keys) in q's type: 0 where a query sees a key. None if the window hides nothing.
  std::optional<Tensor> window_mask(const Tensor& q, const Tensor& k, const AttentionArgs&);

  Kernel kernel_;
  OwnKernel own_;
  std::shared_ptr<cudnn::Attention> graphs_;
  /// Square masks by window, causality and type. Layers share them; shorter sequences take a corner.
  std::map<std::tuple<int64_t, bool, at::ScalarType>, Tensor> window_masks_;
  /// LibTorch's cuDNN forward returns (B, H, S) or (B, H, S, 1), and its backward needs the same. They may
  /// run on two threads.
  std::atomic<bool> cudnn_lse_has_four_axes_ = false;
};
}  // namespace optrush::flash
