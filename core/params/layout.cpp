#include "optrush/param.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "optrush/error.h"

namespace optrush {
namespace {
int64_t product(const std::vector<int64_t>& sizes, size_t from = 0) {
  return std::accumulate(sizes.begin() + static_cast<std::ptrdiff_t>(from), sizes.end(), int64_t{1},
                         std::multiplies<>());
}

std::vector<int64_t> extents(const Layout::Box& box) {
  std::vector<int64_t> sizes;
  for (size_t axis = 0; axis < box.begin.size(); ++axis) sizes.push_back(box.end[axis] - box.begin[axis]);
  return sizes;
}

std::string shown(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text.empty() ? "scalar" : text;
}

/// Splits a range of a box's elements into boxes: along each axis the incomplete rows at both ends and the
/// complete rows between them. The axes before `axis` are already fixed in `box`.
void split(Layout::Box box, size_t axis, int64_t begin, int64_t end, int64_t& at,
           std::vector<Layout::Piece>& pieces) {
  if (begin >= end) return;
  const auto sizes = extents(box);
  if (begin == 0 && end == product(sizes, axis)) {
    pieces.push_back({box, at});
    at += end;
    return;
  }
  const int64_t row = product(sizes, axis + 1), first = begin / row, last = (end - 1) / row;
  const int64_t base = box.begin[axis];
  const auto rows = [&](int64_t from, int64_t to) {
    Layout::Box part = box;
    part.begin[axis] = base + from;
    part.end[axis] = base + to;
    return part;
  };
  if (first == last) {
    split(rows(first, first + 1), axis + 1, begin - first * row, end - first * row, at, pieces);
    return;
  }
  const bool whole_first = begin == first * row, whole_last = end == (last + 1) * row;
  if (!whole_first) split(rows(first, first + 1), axis + 1, begin - first * row, row, at, pieces);
  const int64_t from = whole_first ? first : first + 1, to = whole_last ? last + 1 : last;
  if (from < to) split(rows(from, to), axis, 0, (to - from) * row, at, pieces);
  if (!whole_last) split(rows(last, last + 1), axis + 1, 0, end - last * row, at, pieces);
}

/// The part `part` of a contiguous tensor that holds the box `of`, as a view.
Tensor view(const Tensor& piece, const Layout::Box& of, const Layout::Box& part) {
  Tensor shaped = piece.view(extents(of));
  for (size_t axis = 0; axis < part.begin.size(); ++axis)
    shaped = shaped.slice(static_cast<int64_t>(axis), part.begin[axis] - of.begin[axis],
                          part.end[axis] - of.begin[axis]);
  return shaped;
}
}  // namespace

int64_t Layout::Box::numel() const { return product(extents(*this)); }

Layout::Layout(std::vector<int64_t> shape)
    : shape_(std::move(shape)), box_{std::vector<int64_t>(shape_.size(), 0), shape_}, end_(product(shape_)) {}

Layout Layout::cut(int64_t axis, int64_t begin, int64_t end) const {
  const auto sizes = box_shape();
  if (ranged())
    throw Error(ErrorCode::unsupported,
                "a flat part of a tensor of " + shown(shape_) + " cannot be cut along an axis");
  if (axis < 0 || axis >= static_cast<int64_t>(sizes.size()) || begin < 0 || begin > end ||
      end > sizes[static_cast<size_t>(axis)])
    throw Error(ErrorCode::unsupported, "[" + std::to_string(begin) + ", " + std::to_string(end) +
                                            ") of axis " + std::to_string(axis) +
                                            " is not part of a tensor of " + shown(sizes));
  Layout result = *this;
  const auto i = static_cast<size_t>(axis);
  result.box_.begin[i] = box_.begin[i] + begin;
  result.box_.end[i] = box_.begin[i] + end;
  result.begin_ = 0;
  result.end_ = result.box_.numel();
  return result;
}

Layout Layout::range(int64_t begin, int64_t end) const {
  if (begin < 0 || begin > end || end > numel())
    throw Error(ErrorCode::unsupported, "elements [" + std::to_string(begin) + ", " + std::to_string(end) +
                                            ") are outside of the tensor's " + std::to_string(numel()));
  Layout result = *this;
  result.begin_ = begin_ + begin;
  result.end_ = begin_ + end;
  return result;
}

Layout Layout::in_blocks(int64_t block) const {
  const int64_t all = product(shape_);
  const auto fail = [&] {
    return Error(ErrorCode::unsupported,
                 "a part of a tensor of " + shown(shape_) + " is cut inside its blocks of " +
                     std::to_string(block) + " elements",
                 "cut it along its first axis at multiples of the block, or not at all");
  };
  // The box is contiguous in the logical tensor if all axes behind its first with several entries are whole.
  int64_t first = 0;
  bool inside = false;
  for (size_t axis = 0; axis < shape_.size(); ++axis) {
    const int64_t size = box_.end[axis] - box_.begin[axis];
    if (inside && size != shape_[axis]) throw fail();
    first += box_.begin[axis] * product(shape_, axis + 1);
    inside = inside || size != 1;
  }
  const int64_t begin = first + begin_, end = first + end_;
  const Layout entries({(all + block - 1) / block});
  if (begin == end) return entries.range(0, 0);
  if (begin % block != 0 || (end % block != 0 && end != all)) throw fail();
  return entries.range(begin / block, (end + block - 1) / block);
}

std::vector<int64_t> Layout::local_shape() const {
  return ranged() ? std::vector<int64_t>{numel()} : box_shape();
}
std::vector<int64_t> Layout::box_shape() const { return extents(box_); }
bool Layout::whole() const { return numel() == product(shape_); }
bool Layout::ranged() const { return numel() != box_.numel(); }

std::vector<Layout::Piece> Layout::pieces() const {
  std::vector<Piece> pieces;
  int64_t at = 0;
  split(box_, 0, begin_, end_, at, pieces);
  return pieces;
}

Tensor Layout::take(const Tensor& logical) const {
  Tensor box = logical;
  for (size_t axis = 0; axis < shape_.size(); ++axis)
    box = box.slice(static_cast<int64_t>(axis), box_.begin[axis], box_.end[axis]);
  return ranged() ? box.flatten().narrow(0, begin_, numel()) : box;
}

int64_t Layout::copy(const Layout& from, const Tensor& theirs, const Tensor& mine) const {
  if (from.shape_ != shape_)
    throw Error(ErrorCode::unsupported,
                "a tensor of " + shown(from.shape_) + " cannot be copied to one of " + shown(shape_));
  const at::NoGradGuard no_grad;
  const Tensor to_flat = mine.view(-1), from_flat = theirs.view(-1);
  const auto sources = from.pieces();
  int64_t copied = 0;
  for (const Piece& piece : pieces()) {
    for (const Piece& source : sources) {
      Box both = piece.box;
      bool empty = false;
      for (size_t axis = 0; axis < shape_.size(); ++axis) {
        both.begin[axis] = std::max(both.begin[axis], source.box.begin[axis]);
        both.end[axis] = std::min(both.end[axis], source.box.end[axis]);
        empty = empty || both.begin[axis] >= both.end[axis];
      }
      if (empty) continue;
      view(to_flat.narrow(0, piece.at, piece.box.numel()), piece.box, both)
          .copy_(view(from_flat.narrow(0, source.at, source.box.numel()), source.box, both));
      copied += both.numel();
    }
  }
  return copied;
}
}  // namespace optrush
