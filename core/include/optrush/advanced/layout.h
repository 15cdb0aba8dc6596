#pragma once
#include <cstdint>
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

  /// Keeps [begin, end) along `axis` of the local elements. Throws an Error after a range().
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
}  // namespace optrush
