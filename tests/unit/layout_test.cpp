// Layouts against enumeration: with any cuts, ranges and copies, each logical element arrives once.
#include "optrush/param.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "../support/error_of.h"

namespace optrush {
namespace {
using testing::error_of;
using ::testing::HasSubstr;

int64_t random_below(std::mt19937_64& random, int64_t limit) {
  return std::uniform_int_distribution<int64_t>(0, limit - 1)(random);
}

std::vector<int64_t> random_shape(std::mt19937_64& random) {
  std::vector<int64_t> shape;
  for (int64_t axes = 1 + random_below(random, 3); axes > 0; --axes)
    shape.push_back(1 + random_below(random, 7));
  return shape;
}

Tensor numbered(const std::vector<int64_t>& shape) {
  return at::arange(Layout(shape).numel(), at::kLong).view(shape);
}

/// The expected part, by slices alone.
Tensor by_slices(const Tensor& logical, const std::vector<std::array<int64_t, 3>>& cuts, int64_t begin,
                 int64_t end) {
  Tensor part = logical;
  for (const auto& [axis, from, to] : cuts) part = part.slice(axis, from, to);
  return part.flatten().narrow(0, begin, end - begin);
}

struct RandomLayout {
  Layout layout;
  Tensor elements;  ///< the expected elements, flat
};

RandomLayout random_layout(std::mt19937_64& random, const std::vector<int64_t>& shape) {
  Layout layout(shape);
  std::vector<std::array<int64_t, 3>> cuts;
  for (int64_t i = random_below(random, 3); i > 0; --i) {
    const int64_t axis = random_below(random, static_cast<int64_t>(shape.size()));
    const int64_t size = layout.box_shape()[static_cast<size_t>(axis)];
    const int64_t begin = random_below(random, size + 1),
                  end = begin + random_below(random, size - begin + 1);
    cuts.push_back({axis, begin, end});
    layout = layout.cut(axis, begin, end);
  }
  int64_t begin = 0, end = layout.numel();
  for (int64_t i = random_below(random, 3); i > 0; --i) {  // a range of a range
    const int64_t size = end - begin, from = random_below(random, size + 1),
                  to = from + random_below(random, size - from + 1);
    layout = layout.range(from, to);
    end = begin + to;
    begin += from;
  }
  return {layout, by_slices(numbered(shape), cuts, begin, end)};
}

TEST(Layout, WholeTensorIsUnchanged) {
  const Layout layout({3, 4});
  EXPECT_TRUE(layout.whole());
  EXPECT_FALSE(layout.ranged());
  EXPECT_EQ(layout.local_shape(), (std::vector<int64_t>{3, 4}));
  const Tensor value = numbered({3, 4});
  EXPECT_TRUE(layout.take(value).is_same(value) || at::equal(layout.take(value), value));
}

TEST(Layout, RandomCompositionsEqualSlices) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 3000; ++i) {
    const auto shape = random_shape(random);
    const auto [layout, elements] = random_layout(random, shape);
    ASSERT_EQ(layout.numel(), elements.numel());
    ASSERT_TRUE(at::equal(layout.take(numbered(shape)).flatten(), elements));
    int64_t at = 0;
    const auto pieces = layout.pieces();
    ASSERT_LE(pieces.size(), 2 * shape.size() - 1);
    for (const auto& piece : pieces) {
      ASSERT_EQ(piece.at, at);
      at += piece.box.numel();
    }
    ASSERT_EQ(at, layout.numel());
  }
}

TEST(Layout, RandomCompositionsRoundTrip) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 3000; ++i) {
    const auto shape = random_shape(random);
    const auto mine = random_layout(random, shape), theirs = random_layout(random, shape);
    Tensor received = at::full({mine.layout.numel()}, -1, at::kLong);
    const int64_t copied = mine.layout.copy(theirs.layout, theirs.elements, received);
    const Tensor both = at::isin(mine.elements, theirs.elements);
    ASSERT_EQ(copied, both.sum().item<int64_t>());
    ASSERT_TRUE(at::equal(received, at::where(both, mine.elements, -1)));
  }
}

TEST(Layout, EveryElementMovesOnceBetweenMeshes) {
  std::mt19937_64 random(3);
  const auto cut_up = [&](const Layout& all, int64_t columns, int64_t ranks) {
    std::vector<Layout> parts;  // columns by tensor parallelism, then a flat range a rank, padded at the end
    const int64_t width = all.shape()[1];
    for (int64_t c = 0; c < columns; ++c) {
      const Layout part = all.cut(1, c * width / columns, (c + 1) * width / columns);
      const int64_t piece = (part.numel() + ranks - 1) / ranks;
      for (int64_t r = 0; r < ranks; ++r)
        parts.push_back(
            part.range(std::min(r * piece, part.numel()), std::min((r + 1) * piece, part.numel())));
    }
    return parts;
  };
  for (int i = 0; i < 100; ++i) {
    const std::vector<int64_t> shape = {1 + random_below(random, 9), 4 + random_below(random, 9)};
    const Tensor logical = numbered(shape);
    const auto before = cut_up(Layout(shape), 1 + random_below(random, 3), 1 + random_below(random, 4));
    const auto after = cut_up(Layout(shape), 1 + random_below(random, 3), 1 + random_below(random, 4));
    for (const Layout& part : after) {
      Tensor received = at::full({part.numel()}, -1, at::kLong);
      int64_t copied = 0;
      for (const Layout& source : before)
        copied += part.copy(source, source.take(logical).contiguous(), received);
      ASSERT_EQ(copied, part.numel());
      ASSERT_TRUE(at::equal(received, part.take(logical).flatten()));
    }
  }
}

TEST(Layout, CountsBlocksFromTheFirstLogicalElement) {
  const Layout all({6, 8});
  EXPECT_EQ(all.in_blocks(16).numel(), 3);
  EXPECT_EQ(all.in_blocks(20).numel(), 3);  // the last block is short
  const Layout rows = all.cut(0, 2, 6).in_blocks(16);
  EXPECT_EQ(rows.range_begin(), 1);
  EXPECT_EQ(rows.range_end(), 3);
  const Layout tail = all.range(40, 48).in_blocks(20);
  EXPECT_EQ(tail.numel(), 1);
  EXPECT_EQ(tail.range_begin(), 2);
  EXPECT_EQ(all.range(7, 7).in_blocks(16).numel(), 0);
}

TEST(Layout, RefusesToCutThroughABlock) {
  const Layout all({6, 8});
  EXPECT_THAT(error_of([&] { all.range(8, 32).in_blocks(16); }), HasSubstr("blocks of 16"));
  EXPECT_THAT(error_of([&] { all.cut(1, 0, 4).in_blocks(4); }), HasSubstr("first axis"));
}

TEST(Layout, RefusesInvalidCutsAndRanges) {
  const Layout all({6, 8});
  EXPECT_THAT(error_of([&] { all.cut(2, 0, 1); }), HasSubstr("6 x 8"));
  EXPECT_THAT(error_of([&] { all.cut(1, 4, 9); }), HasSubstr("[4, 9) of axis 1"));
  EXPECT_THAT(error_of([&] { all.range(0, 49); }), HasSubstr("outside of the tensor's 48"));
  EXPECT_THAT(error_of([&] { all.range(1, 5).cut(0, 0, 1); }), HasSubstr("cut along an axis"));
  EXPECT_THAT(error_of([&] {
                all.copy(Layout({8, 6}), at::zeros({48}), at::zeros({48}));
              }),
              HasSubstr("8 x 6"));
}
}  // namespace
}  // namespace optrush
