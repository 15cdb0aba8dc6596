#pragma once
#include <cstdint>
#include <string>
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
}  // namespace optrush
