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
/// Which logical elements of a tensor lie in this process, and where. A tensor is first cut by axes (tensor
/// parallelism), then a range of what is left is taken in row-major order (sharding). Everything that splits,
/// gathers, saves or loads a parameter or its optimizer state reads it.
class Layout {
 public:
  /// [begin, end) along each axis.
  struct Box {
    std::vector<int64_t> begin, end;
    int64_t numel() const;
    bool operator==(const Box&) const = default;
  };
  /// A box of the logical tensor that lies here without gaps, in row-major order, from element `at` on.
  struct Piece {
    Box box;
    int64_t at = 0;
  };

  Layout() = default;
  /// All of a tensor of this shape.
  explicit Layout(std::vector<int64_t> shape);

  /// [begin, end) along `axis` of what is here. An Error after a range(): a flat piece has no axes.
  Layout cut(int64_t axis, int64_t begin, int64_t end) const;
  /// Elements [begin, end) of what is here, counted in row-major order.
  Layout range(int64_t begin, int64_t end) const;
  /// The layout of a tensor with one entry for each `block` consecutive logical elements, as scales of a
  /// codec or of an 8-bit optimizer are. An Error where a cut goes through a block.
  Layout in_blocks(int64_t block) const;

  const std::vector<int64_t>& shape() const { return shape_; }  ///< logical
  /// Of the tensor here: of the box, or {numel()} where only a range of it is here.
  std::vector<int64_t> local_shape() const;
  /// Of the box that the range was taken from.
  std::vector<int64_t> box_shape() const;
  int64_t numel() const { return end_ - begin_; }
  bool whole() const;                             ///< every logical element is here
  bool ranged() const;                            ///< a range() took a part of the box
  int64_t range_begin() const { return begin_; }  ///< in row-major elements of the box
  int64_t range_end() const { return end_; }
  /// At most 2 x dimensions - 1; none where nothing is here.
  std::vector<Piece> pieces() const;

  /// The elements here of a whole logical tensor, in local_shape(). A view where they are one.
  Tensor take(const Tensor& logical) const;
  /// Copies what both layouts hold from `theirs` into `mine`, tensors of the local elements of each (of any
  /// shape, contiguous). Returns how many elements were copied.
  int64_t copy(const Layout& from, const Tensor& theirs, const Tensor& mine) const;

  bool operator==(const Layout&) const = default;

 private:
  std::vector<int64_t> shape_;
  Box box_;
  int64_t begin_ = 0, end_ = 0;  ///< of the box's elements
};

/// Storage form of a parameter, for example NF4. Sharding, gathering and saving see the encoded tensors,
/// operators the decoded value.
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
  /// Of a value of any shape, in order of fields(). The last entry may stand for fewer elements.
  virtual Tensors encode(const Tensor& value) const = 0;
  virtual Tensor decode(const Tensors& stored, at::IntArrayRef shape) const = 0;
  /// Elements that a shard must not cut: a multiple of every elements_per_entry.
  virtual int64_t block() const = 0;
};

/// A leaf in another type. It is cast when it is first asked for; from then on everybody gets the same
/// tensor: micro-batches, several uses, recomputation. Its gradients go back to the leaf, also where it was
/// first asked for without gradients. Not for threads that run at the same time; a backward that recomputes
/// on the engine's thread while its caller waits is fine.
class ComputeCopy {
 public:
  /// Cast again where the leaf is another tensor, or was written to, since.
  const Tensor& of(const Tensor& leaf, at::ScalarType);
  /// The host does so once a step, as soon as gradients are final: no step holds the copies of another.
  void drop() {
    copy_.reset();
    leaf_.reset();
  }
  bool holds(const Tensor& tensor) const { return copy_.defined() && copy_.is_alias_of(tensor); }
  /// Of the last copy, dropped or not; 0 where nobody asked for one.
  int64_t bytes() const { return bytes_; }

 private:
  Tensor copy_, leaf_;
  int64_t version_ = 0, bytes_ = 0;
};

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
  /// optimizer starts from that keeps more bits. Set in Event::meta_initialized.
  std::function<void(const Tensor& uncut)> on_materialize = {};
  bool trainable = true;
  bool decay = true;  ///< takes part in weight decay (matrices do, norms don't)
  /// Which of its elements this rank keeps between steps: all, until a plugin cuts it by axes in
  /// Event::meta_initialized, or data parallelism takes a range.
  Layout layout = {};
  /// Mesh dimensions whose ranks keep different elements of it.
  std::vector<std::string> sharded_over = {};
  /// Mesh dimensions besides data() over which its gradient is partial.
  std::vector<std::string> partial_over = {};
  /// Of a parameter that ranks hold for a use of their own each, as both ends of a pipeline do a tied
  /// embedding: norms count it on one of them, and that one saves it.
  bool counted = true;
  /// Elements that a shard must not cut, from the first one on: the block of an 8-bit optimizer.
  int64_t block = 1;
  std::shared_ptr<const Codec> codec = {};
  Tensors stored = {};  ///< encoded form where there is a codec
  Tensor leaf = {};     ///< autograd leaf otherwise, of layout.box_shape()
  /// What matrix products compute in where that is not the leaf's type. Set in Event::meta_initialized.
  std::optional<at::ScalarType> compute_dtype = {};
  mutable ComputeCopy compute_copy = {};  ///< of the leaf, in `compute_dtype`

  /// What operators compute with. Read at each call, never cached. An Error where a plugin that shards
  /// parameters has them gathered for their unit alone, and this is read outside of it.
  Tensor value() const;
  /// The same for matrix products, which may compute in fewer bits: in `compute_dtype`, cast once a step. An
  /// operator that reads value() instead computes with all bits of the leaf, and under autocast has it cast
  /// at each use.
  Tensor compute_value() const;
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

 protected:
  std::deque<Param> params_;
  std::vector<Param*> kept_;  ///< this rank's
};
}  // namespace optrush
