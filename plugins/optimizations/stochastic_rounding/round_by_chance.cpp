#include "round_by_chance.h"

#include <ATen/Functions.h>

#include <algorithm>

namespace optrush::stochastic_rounding {
namespace {
constexpr int64_t kCachedNumbers = 1 << 15, kNumbersOnGpu = 1 << 24;
constexpr int64_t kDropped = 16;  // bits of fp32 that bf16 does not have

constexpr uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// x ^ (x >> bits), in place; shifts of tensors copy the sign.
void fold(Tensor& x, int64_t bits) {
  x.bitwise_xor_(x.bitwise_right_shift(bits).bitwise_and_(static_cast<int64_t>(~uint64_t{0} >> bits)));
}

/// mixed() of each number, in place.
void mix(Tensor& x) {
  fold(x, 30);
  x.mul_(static_cast<int64_t>(0xbf58476d1ce4e5b9));
  fold(x, 27);
  x.mul_(static_cast<int64_t>(0x94d049bb133111eb));
  fold(x, 31);
}

/// The row-major indices, in the whole tensor, of the elements of a box. They have the shape of the box.
Tensor places(const Layout::Box& box, const std::vector<int64_t>& shape, const at::TensorOptions& options) {
  Tensor all = at::zeros({}, options);
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    const Tensor here = at::arange(box.begin[axis], box.end[axis], options) * stride;
    std::vector<int64_t> along(shape.size(), 1);
    along[axis] = here.numel();
    all = all + here.view(along);
    stride *= shape[axis];
  }
  return all;
}

void round_box(const Tensor& wide, const Tensor& narrow, Tensor random, uint64_t key) {
  constexpr int64_t kMask = (1 << kDropped) - 1, kQuietNaN = 1 << 22;
  random.add_(static_cast<int64_t>(key));
  mix(random);
  const Tensor added = random.bitwise_and_(kMask).to(at::kInt).view_as(wide).mul_(wide.isfinite());
  const Tensor bits = (wide.view(at::kInt) + added).bitwise_and_(~kMask);
  // A NaN would become an infinity if only dropped bits are set.
  bits.bitwise_or_(wide.ne(wide).to(at::kInt).mul_(kQuietNaN));
  narrow.copy_(bits.view(at::kFloat));
}
}  // namespace

uint64_t key_of(uint64_t seed, int64_t step, const std::string& parameter) {
  uint64_t key = mixed(seed + 0x9e3779b97f4a7c15);
  for (const char letter : parameter) key = mixed(key ^ static_cast<uint8_t>(letter));
  return mixed(key ^ static_cast<uint64_t>(step));
}

void round_by_chance(const Tensor& wide, const Tensor& narrow, const Segment& segment, uint64_t key) {
  const auto options = wide.options().dtype(at::kLong);
  const int64_t most = wide.is_cpu() ? kCachedNumbers : kNumbersOnGpu;
  for (const Layout::Piece& piece : segment.layout.pieces()) {
    const auto& shape = segment.layout.shape();
    // One part at a time, along the first axis.
    const int64_t rows = shape.empty() ? 1 : piece.box.end[0] - piece.box.begin[0];
    const int64_t row = piece.box.numel() / std::max<int64_t>(rows, 1);
    const int64_t together = std::max<int64_t>(1, most / std::max<int64_t>(row, 1));
    for (int64_t begin = 0; begin < rows; begin += together) {
      const int64_t count = std::min(together, rows - begin), at = piece.at + begin * row;
      Layout::Box box = piece.box;
      if (!shape.empty()) {
        box.begin[0] += begin;
        box.end[0] = box.begin[0] + count;
      }
      round_box(wide.narrow(0, at, count * row), narrow.narrow(0, at, count * row),
                places(box, shape, options).contiguous(), key);
    }
  }
}
}  // namespace optrush::stochastic_rounding
