#pragma once
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "optrush/differentiable.h"
#include "optrush/ops.h"

namespace optrush::flash {
enum class Kernel : uint8_t { cpu, flash, efficient, cudnn };

/// One of LibTorch's fused kernels, called by its own operators: forward with the log-sum-exp, and a backward
/// that takes any out and lse. With segments each document is attended to alone: on a CPU one call each, on a
/// GPU one call for all (cuDNN's kernel leaves them to flash). A sliding window is a mask on a CPU, where the
/// products behind it are computed as well, and a bound of the loop of flash on a GPU. On a CPU the plugin's
/// own kernel (cpu/attention.h) computes what it takes.
class FusedKernel {
 public:
  /// The plugin's own kernel for CPUs, by its scale. It outlives the calls.
  using OwnKernel = std::function<const Differentiable&(double scale)>;
  FusedKernel(Kernel kernel, OwnKernel own) : kernel_(kernel), own_(std::move(own)) {}

  /// Whether the plugin's own kernel runs: on a CPU, for what it takes, a document or a row that counts as
  /// one. A compiler is given LibTorch's operator.
  bool runs_own(const Tensor& q, const Tensor& k, const Tensor& v, AttentionArgs) const;
  /// Under autograd where it is enabled; the lse has no derivative.
  AttentionOut forward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs&);
  /// {dq, dk, dv}; `out` and `lse` may be of more keys than these.
  std::array<Tensor, 3> backward(const Tensor& gradient, const Tensor& q, const Tensor& k, const Tensor& v,
                                 const Tensor& out, const Tensor& lse, const AttentionArgs&);

 private:
  void check_width(const Tensor& q) const;
  AttentionOut forward_whole(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs&);
  std::array<Tensor, 3> backward_whole(const Tensor& gradient, const Tensor& q, const Tensor& k,
                                       const Tensor& v, const Tensor& out, const Tensor& lse,
                                       const AttentionArgs&);

  /// (queries, keys) in q's type: 0 where a query sees a key; none where the window hides nothing.
  std::optional<Tensor> window_mask(const Tensor& q, const Tensor& k, const AttentionArgs&);

  Kernel kernel_;
  OwnKernel own_;
  /// By window, whether causal, and type; square. Layers share them, and shorter sequences take a corner.
  std::map<std::tuple<int64_t, bool, at::ScalarType>, Tensor> window_masks_;
  /// LibTorch's cuDNN forward gives (B, H, S) or (B, H, S, 1), and its backward wants the same. They may run
  /// on two threads.
  std::atomic<bool> cudnn_lse_has_four_axes_ = false;
};
}  // namespace optrush::flash
