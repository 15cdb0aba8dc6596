#pragma once
#include <torch/csrc/autograd/saved_variable.h>

#include <deque>
#include <memory>

#include "operators.h"
#include "optrush/advanced/saved_tensors.h"
#include "optrush/scopes.h"
#include "origin.h"

namespace optrush::checkpointing {
/// Whether the `number`-th operator call of a block keeps its results.
using Keep = std::function<bool(const std::string& slot, int64_t number)>;

/// One forward of a block that keeps its input and the outputs of chosen operators. Tensors that
/// other operators saved are dropped. When the backward first needs one of them, the block's forward
/// runs again and reuses the kept outputs. The graph is the plain one, so gradients have the same
/// bits.
class SelectiveCall final : public std::enable_shared_from_this<SelectiveCall> {
 public:
  SelectiveCall(std::shared_ptr<const UnitFunction> forward, const Tensor& x, Batch batch,
                const Scopes& scopes, Operators::Block& block);
  /// `x` must be the tensor that the constructor got.
  Tensor run(const Tensor& x, const Keep& keep);

 private:
  class Recording;
  class Replaying;
  using Saved = torch::autograd::SavedVariable;
  /// A tensor that the backward needs and that the replay computes.
  struct Dropped {
    int64_t elements = 0;
    std::optional<Origin> origin;  ///< it follows from `value`, an input of a kept operator
    std::optional<Saved> value;
    bool wanted = true;  ///< until autograd lets go of it
  };
  struct KeptOutput {
    std::optional<Saved> value;  ///< empty if no later tensor was dropped
    std::vector<int64_t> sizes;
    at::TensorOptions options;
    bool requires_grad = false;
  };
  struct KeptCall {
    std::vector<std::optional<KeptOutput>> outputs;  ///< empty: undefined
    std::deque<Dropped> inputs;
    Tensor random_after;  ///< the generator's state at its end; undefined if the block draws none
    int64_t calls_inside = 0;
    size_t dropped_before_end = 0;
  };

  /// Whether it is the block's input or of the batch.
  bool lives_anyway(const Tensor& tensor) const;
  /// Held like a tensor that autograd saves, so that the counts include it.
  Saved hold(const Tensor& tensor);
  PackedTensor drop(Dropped&);
  void replay();

  std::shared_ptr<const UnitFunction> forward_;
  Batch batch_;
  Operators::Block& block_;
  Recomputation recomputation_;
  Saved x_;
  bool x_requires_grad_;
  const void* x_storage_;
  std::deque<Dropped> dropped_;  ///< by operators that are not kept, in order
  std::map<int64_t, KeptCall> kept_;
  size_t dropped_count_ = 0;
  bool holding_ = false;
};
}  // namespace optrush::checkpointing
