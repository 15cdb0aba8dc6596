#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "optrush/tensor.h"

namespace optrush {
/// The logical elements of a tensor that this process stores, and their places. A tensor is first cut along
/// axes (tensor parallelism), then a range of the remaining elements is taken in row-major order (sharding).
/// All code that splits, gathers, saves or loads a parameter or its optimizer state uses it.
class Layout {
 public:
  /// [begin, end) along each axis.
  struct Box {
    std::vector<int64_t> begin, end;
    int64_t numel() const;
    bool operator==(const Box&) const = default;
  };
  /// A box of the logical tensor that is stored contiguously, in row-major order, from element `at` on.
  struct Piece {
    Box box;
    int64_t at = 0;
  };

  Layout() = default;
  /// All of a tensor of this shape.
  explicit Layout(std::vector<int64_t> shape);

  /// Keeps [begin, end) along `axis` of the local elements. Throws an Error after a range(): a flat part has
  /// no axes.
  Layout cut(int64_t axis, int64_t begin, int64_t end) const;
  /// Keeps the local elements [begin, end), in row-major order.
  Layout range(int64_t begin, int64_t end) const;
  /// The layout of a tensor with one entry per `block` consecutive logical elements, such as the scales of a
  /// codec or of an 8-bit optimizer. Throws an Error if a cut is inside a block.
  Layout in_blocks(int64_t block) const;

  const std::vector<int64_t>& shape() const { return shape_; }  ///< logical
  /// The shape of the local tensor: the shape of the box, or {numel()} if only a range of it is local.
  std::vector<int64_t> local_shape() const;
  /// The shape of the box from which the range was taken.
  std::vector<int64_t> box_shape() const;
  int64_t numel() const { return end_ - begin_; }
  bool whole() const;                             ///< every logical element is local
  bool ranged() const;                            ///< a range() took a part of the box
  int64_t range_begin() const { return begin_; }  ///< in row-major elements of the box
  int64_t range_end() const { return end_; }
  /// The local pieces: at most 2 x dimensions - 1; none if nothing is local.
  std::vector<Piece> pieces() const;

  /// The local elements of a whole logical tensor, in local_shape(); a view if they are contiguous.
  Tensor take(const Tensor& logical) const;
  /// Copies the elements that both layouts have from `theirs` to `mine`, the contiguous local tensors of
  /// each, of any shape. Returns the number of copied elements.
  int64_t copy(const Layout& from, const Tensor& theirs, const Tensor& mine) const;

  bool operator==(const Layout&) const = default;

 private:
  std::vector<int64_t> shape_;
  Box box_;
  int64_t begin_ = 0, end_ = 0;  ///< of the box's elements
};

/// Storage format of a parameter, for example NF4. Sharding, gathering and saving use the encoded tensors;
/// operators use the decoded value.
class Codec {
 public:
  virtual ~Codec() = default;
  /// Each stored tensor is flat and has one entry for every `elements_per_entry` consecutive elements.
  struct Field {
    std::string name;
    at::ScalarType dtype = at::kByte;
    int64_t elements_per_entry = 1;
  };
  virtual std::vector<Field> fields() const = 0;
  /// The encoded tensors of a value of any shape, in order of fields(). The last entry may have fewer
  /// elements.
  virtual Tensors encode(const Tensor& value) const = 0;
  virtual Tensor decode(const Tensors& stored, at::IntArrayRef shape) const = 0;
  /// Elements that a shard must not cut: a multiple of every elements_per_entry.
  virtual int64_t block() const = 0;
};

/// A leaf cast to another type. The first request casts it; later requests of micro-batches, further uses and
/// recomputation return the same tensor. Its gradients flow back to the leaf, even if the first request was
/// without gradients. Not thread-safe for concurrent threads; a backward that recomputes on the engine's
/// thread while its caller waits is allowed.
class ComputeCopy {
 public:
  /// The copy; casts again if the leaf is a different tensor or was written to.
  const Tensor& of(const Tensor& leaf, at::ScalarType);
  /// Frees the copy. The host calls it once per step, as soon as gradients are final.
  void drop() {
    copy_.reset();
    leaf_.reset();
  }
  bool holds(const Tensor& tensor) const { return copy_.defined() && copy_.is_alias_of(tensor); }
  /// Bytes of the last copy, even if freed; 0 if there was none.
  int64_t bytes() const { return bytes_; }

 private:
  Tensor copy_, leaf_;
  int64_t version_ = 0, bytes_ = 0;
};

class Mesh;

/// A parameter: an identity that outlives its tensors. Sharding, quantization and adapters replace tensors;
/// other code must not keep one across steps.
struct Param {
  std::string name;               ///< Hugging Face name: key of checkpoints, seeds and reports
  std::vector<int64_t> shape;     ///< logical: before any split
  std::vector<std::string> axes;  ///< a label for each axis: vocab, model, heads, kv_heads, ffn, rank
  /// Fills the full value in place. The generator is seeded by (seed, name), so every mesh starts from equal
  /// values.
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
  /// The dimensions of sharded_over along which other ranks do not have it: they have other layers, or other
  /// experts.
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
