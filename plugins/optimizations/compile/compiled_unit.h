#pragma once
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <filesystem>
#include <string>
#include <vector>

#include "optrush/tensor.h"

namespace optrush::compile {
/// A compiled forward and backward behind one autograd node. Units that compile to the same code share one.
class CompiledUnit {
 public:
  /// `folder` holds unit.pt2 and meta.json, as inductor.py writes them.
  explicit CompiledUnit(const std::filesystem::path& folder);

  /// The unit's output for the inputs of unit_inputs(), under autograd if it is enabled.
  Tensor operator()(const Tensors& inputs) const;
  /// One gradient for each input, undefined if there is none. Takes `saved` so that each tensor is freed
  /// after its last use.
  Tensors backward(Tensors saved, const Tensor& gradient) const;

 private:
  /// A tensor for the backward: an unchanged input, or an additional output of the forward.
  struct Saved {
    bool input = false;
    size_t index = 0;
  };
  // The loader's run() is not const, though it changes nothing that a caller sees.
  mutable torch::inductor::AOTIModelPackageLoader forward_, backward_;
  std::vector<Saved> saved_;
  std::vector<bool> gradients_;
  double forward_flops_ = 0, backward_flops_ = 0;
};
}  // namespace optrush::compile
