#pragma once
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "cudnn/graph.h"
#include "optrush/ops.h"

namespace optrush::flash::cudnn {
/// Attention by graphs of cuDNN, on a GPU, without autograd. They compute what LibTorch's call of cuDNN does
/// not (takes()). A graph is compiled at the first call of each form, which takes about a second. Documents
/// have one form in a run, because the number of documents of a batch and the length of the longest are the
/// same in every step (optrush/batch.h).
class Attention {
 public:
  explicit Attention(std::string architecture);  ///< "sm_90"
  ~Attention();
  /// Whether a graph computes what LibTorch's call of cuDNN does not: a window; and on Hopper and on
  /// Blackwell of data centers documents, soft caps of scores (not of documents), and values of another width
  /// than keys.
  bool takes(const Tensor& k, const Tensor& v, const AttentionArgs&) const;
  /// {out, lse}; the lse in fp32.
  AttentionOut forward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs&);
  /// {dq, dk, dv}. `out` and `lse` may include more keys than k.
  std::array<Tensor, 3> backward(const Tensor& gradient, const Tensor& q, const Tensor& k, const Tensor& v,
                                 const Tensor& out, const Tensor& lse, const AttentionArgs&);

 private:
  struct Prepared;
  /// `starts`: the first positions of documents, and the end; undefined for rows.
  void run(const Form&, const std::map<Operand, Tensor>&, const Tensor& starts);

  std::string architecture_;
  std::mutex mutex_;  ///< a backward that recomputes may run on another thread
  std::shared_ptr<void> handle_;
  std::map<Form, Prepared> prepared_;
};
}  // namespace optrush::flash::cudnn
