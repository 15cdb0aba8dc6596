#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "optrush/advanced/codec.h"
#include "optrush/advanced/compute_copy.h"
#include "optrush/advanced/layout.h"
#include "optrush/tensor.h"

namespace optrush {
class Mesh;

/// A parameter: an identity that outlives its tensors. Sharding, quantization and adapters replace tensors;
/// other code must not keep one across steps.
struct Param {
  std::string name;               ///< Hugging Face name: key of checkpoints, seeds and reports
  std::vector<int64_t> shape;     ///< logical: before any split
  std::vector<std::string> axes;  ///< a label for each axis: vocab, model, heads, kv_heads, ffn, rank
  /// Fills the full value in place. The generator is seeded by (seed, name), equal on every mesh.
  std::function<void(Tensor& value, at::Generator&)> init;
  at::ScalarType dtype = at::kFloat;
  /// Called once with the elements of `layout` on the device, before they are rounded to `dtype`, for
  /// optimizers that keep more bits. Set it in Event::meta_initialized.
  std::function<void(const Tensor& uncut)> on_materialize = {};
  bool trainable = true;
  bool decay = true;  ///< weight decay applies (true for matrices, false for norms)
  /// The elements that this rank stores between steps: all, unless a plugin cuts axes in
  /// Event::meta_initialized or data parallelism takes a range.
  Layout layout = {};
  /// Mesh dimensions along which ranks store different elements of it.
  std::vector<std::string> sharded_over = {};
  /// The dimensions of sharded_over along which other ranks have other layers or experts.
  std::vector<std::string> absent_over = {};
  /// Mesh dimensions except data() over which its gradient is partial.
  std::vector<std::string> partial_over = {};
  /// False on all but one rank if ranks have separate copies for separate uses, such as a tied embedding at
  /// both ends of a pipeline. Norms count the parameter on one rank, which also saves it.
  bool counted = true;
  /// Block size that a shard must not cut, counted from the first element: the block of an 8-bit optimizer.
  int64_t block = 1;
  std::shared_ptr<const Codec> codec = {};
  Tensors stored = {};  ///< encoded tensors, if there is a codec
  Tensor leaf = {};     ///< autograd leaf otherwise, of layout.box_shape()
  /// Type of matrix products, if different from the leaf's type. Set it in Event::meta_initialized.
  std::optional<at::ScalarType> compute_dtype = {};
  mutable ComputeCopy compute_copy = {};  ///< of the leaf, in `compute_dtype`

  /// The value for operators. Read it at each call and do not cache it. Throws an Error if it is read outside
  /// of its unit while a sharding plugin gathers parameters per unit.
  Tensor value() const;
  /// The value for matrix products, in `compute_dtype`, cast once per step. An operator that reads value()
  /// instead computes with all bits of the leaf, and under autocast casts it at each use.
  Tensor compute_value() const;
  int64_t numel() const;
  /// Mesh dimensions over which ranks have parts of it: sharded_over without absent_over.
  std::vector<std::string> cut_over() const;
  /// Mesh dimensions over which the ranks' gradients of it are added up: data() without absent_over.
  std::vector<std::string> summed_over(const Mesh&) const;
};

/// Every parameter of the model, in order of the forward. Addresses are stable.
class Params {
 public:
  /// Throws an Error if the name exists. Its layout is the layout of a whole tensor.
  Param& add(Param);
  Param& at(std::string_view name);
  bool contains(std::string_view name) const;
  std::vector<Param*> all();
  std::vector<const Param*> all() const;

 protected:
  std::deque<Param> params_;
  std::vector<Param*> kept_;  ///< this rank's
};
}  // namespace optrush
