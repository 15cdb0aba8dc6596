#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "optrush/codec.h"
#include "optrush/layout.h"
#include "optrush/step_copy.h"
#include "optrush/tensor.h"

namespace optrush {
/// A parameter: an identity that outlives every tensor behind it. Sharding, quantization and adapters swap
/// tensors; nobody else keeps one across steps.
struct Param {
  std::string name;               ///< Hugging Face name: key of checkpoints, seeds and reports
  std::vector<int64_t> shape;     ///< logical: before any split
  std::vector<std::string> axes;  ///< a label for each axis: vocab, model, heads, kv_heads, ffn, rank
  /// Fills the full value in place. The generator is seeded by (seed, name), so every mesh starts from equal
  /// values.
  std::function<void(Tensor& value, at::Generator&)> init;
  at::ScalarType dtype = at::kFloat;
  /// Called once with the elements of `layout`, on the device, before they are cut to `dtype`: what an
  /// optimizer starts from that keeps more bits. Set in Event::declared.
  std::function<void(const Tensor& uncut)> on_value = {};
  bool trainable = true;
  bool decay = true;  ///< takes part in weight decay (matrices do, norms don't)
  /// Which of its elements this rank keeps between steps: all, until a plugin cuts it by axes in
  /// Event::declared, or data parallelism takes a range.
  Layout layout = {};
  /// Mesh dimensions whose ranks keep different elements of it.
  std::vector<std::string> split_over = {};
  /// Mesh dimensions besides data() over which its gradient is partial.
  std::vector<std::string> sum_over = {};
  /// Of a parameter that ranks hold for a use of their own each, as both ends of a pipeline do a tied
  /// embedding: norms count it on one of them, and that one saves it.
  bool counted = true;
  /// Elements that a shard must not cut, from the first one on: the block of an 8-bit optimizer.
  int64_t block = 1;
  std::shared_ptr<const Codec> codec = {};
  Tensors stored = {};  ///< encoded form where there is a codec
  Tensor leaf = {};     ///< autograd leaf otherwise, of layout.box_shape()
  /// What matrix products compute in where that is not the leaf's type. Set in Event::declared.
  std::optional<at::ScalarType> operand_type = {};
  mutable StepCopy step_copy = {};  ///< of the leaf, in `operand_type`

  /// What operators compute with. Read at each call, never cached. An Error where a plugin that shards
  /// parameters has them gathered for their unit alone, and this is read outside of it.
  Tensor value() const;
  /// The same for matrix products, which may compute in fewer bits: in `operand_type`, cast once a step. An
  /// operator that reads value() instead computes with all bits of the leaf, and under autocast has it cast
  /// at each use.
  Tensor operand() const;
  int64_t numel() const;
};

/// Every parameter of the model, in order of the forward. Addresses are stable.
class Params {
 public:
  /// An Error where the name is taken. Its layout is that of a whole tensor.
  Param& add(Param);
  Param& at(std::string_view name);
  bool contains(std::string_view name) const;
  std::vector<Param*> all();
  std::vector<const Param*> all() const;

 private:
  friend class Session;
  /// The others are not this rank's: all() leaves them out from here on.
  void keep_only(const std::vector<Param*>& kept);
  std::deque<Param> params_;
  std::vector<Param*> kept_;
};
}  // namespace optrush
