// The order of work of a pipeline's ranks in a step, compared with the papers' figures and checked for every
// small shape.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <sstream>

#include "optrush/param.h"
#include "pipeline_parallel/deferred_weights.h"
#include "pipeline_parallel/order.h"
#include "pipeline_parallel/partition.h"
#include "pipeline_parallel/timeline.h"

namespace optrush::pipeline_parallel {
namespace {
using ::testing::ElementsAre;

/// "F1 F2 B1", micro-batches from 1 as in the figures; with several chunks "F1a B1b".
std::string order_text(const Shape& shape, int64_t rank) {
  std::ostringstream out;
  for (const auto& [work, chunk, micro] : order_of(shape, rank)) {
    out << (out.tellp() > 0 ? " " : "") << "FBW"[static_cast<size_t>(work)] << micro + 1;
    if (shape.chunks > 1) out << static_cast<char>('a' + chunk);
  }
  return out.str();
}

TEST(PipelineOrder, GpipeMatchesItsPublishedFigure) {  // arXiv:1811.06965, figure 2c, backwards in order
  const Shape shape{Schedule::gpipe, 4, 1, 4};
  for (int64_t rank = 0; rank < 4; ++rank) EXPECT_EQ(order_text(shape, rank), "F1 F2 F3 F4 B1 B2 B3 B4");
}

TEST(PipelineOrder, OneForwardOneBackwardMatchesItsPublishedFigure) {  // arXiv:2104.04473, figure 4, top
  const Shape shape{Schedule::one_f_one_b, 4, 1, 8};
  EXPECT_EQ(order_text(shape, 0), "F1 F2 F3 F4 B1 F5 B2 F6 B3 F7 B4 F8 B5 B6 B7 B8");
  EXPECT_EQ(order_text(shape, 1), "F1 F2 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 F8 B6 B7 B8");
  EXPECT_EQ(order_text(shape, 2), "F1 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 F8 B7 B8");
  EXPECT_EQ(order_text(shape, 3), "F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7 F8 B8");
}

TEST(PipelineOrder, InterleavedMatchesItsPublishedFigure) {  // arXiv:2104.04473, figure 4, bottom
  const Shape shape{Schedule::interleaved, 4, 2, 8};
  EXPECT_EQ(order_text(shape, 0),
            "F1a F2a F3a F4a F1b F2b F3b F4b F5a F6a F7a B1b F8a B2b F5b B3b F6b B4b F7b B1a F8b B2a "
            "B3a B4a B5b B6b B7b B8b B5a B6a B7a B8a");
  EXPECT_EQ(order_text(shape, 3),
            "F1a F2a F3a F4a F1b B1b F2b B2b F3b B3b F4b B4b F5a B1a F6a B2a F7a B3a F8a B4a "
            "F5b B5b F6b B6b F7b B7b F8b B8b B5a B6a B7a B8a");
}

TEST(PipelineOrder, ZeroBubbleMatchesItsPublishedFigure) {  // arXiv:2401.10241, figure 2, ZB-H1
  const Shape shape{Schedule::zero_bubble, 4, 1, 8};
  EXPECT_EQ(order_text(shape, 0), "F1 F2 F3 F4 B1 W1 F5 B2 W2 F6 B3 W3 F7 B4 W4 F8 B5 W5 B6 W6 B7 W7 B8 W8");
  EXPECT_EQ(order_text(shape, 3), "F1 B1 F2 B2 F3 B3 F4 B4 W1 F5 B5 W2 F6 B6 W3 F7 B7 W4 F8 B8 W5 W6 W7 W8");
}

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (int64_t ranks = 2; ranks <= 6; ++ranks)
    for (int64_t micros = 1; micros <= 13; ++micros) {
      for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble})
        all.push_back({schedule, ranks, 1, micros});
      for (int64_t chunks = 1; chunks <= 3; ++chunks)
        if (micros % ranks == 0) all.push_back({Schedule::interleaved, ranks, chunks, micros});
    }
  return all;
}

std::string named(const Shape& shape) {
  return "schedule " + std::to_string(static_cast<int>(shape.schedule)) + ", " + std::to_string(shape.ranks) +
         " ranks, " + std::to_string(shape.chunks) + " chunks, " + std::to_string(shape.micros);
}

TEST(PipelineOrder, EverythingIsDoneOnceAndGradientsAddUpInOrder) {
  for (const Shape& shape : shapes())
    for (int64_t rank = 0; rank < shape.ranks; ++rank) {
      SCOPED_TRACE(named(shape));
      std::map<std::pair<Work, int64_t>, std::vector<int64_t>> micros;
      for (const auto& [work, chunk, micro] : order_of(shape, rank)) micros[{work, chunk}].push_back(micro);
      const size_t kinds = shape.schedule == Schedule::zero_bubble ? 3 : 2;
      EXPECT_EQ(micros.size(), kinds * static_cast<size_t>(shape.chunks));
      std::vector<int64_t> all(static_cast<size_t>(shape.micros));
      for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
      for (const auto& [kind, in_order] : micros) EXPECT_EQ(in_order, all);
    }
}

/// Each rank goes through its order. Before it sends a message, it has requested all earlier messages of the
/// other rank. Before it needs a message, it has sent all its earlier ones.
TEST(PipelineTimeline, RanksAgreeOnAMessageOrderWithoutDeadlock) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(named(shape));
    const Timeline timeline(shape);
    for (int64_t rank = 0; rank < shape.ranks; ++rank)
      for (int64_t other = 0; other < shape.ranks; ++other) {
        if (rank == other) continue;
        const auto order = timeline.between(rank, other);
        EXPECT_EQ(order, timeline.between(other, rank));
        size_t sent = 0;  // this rank's position in the order, by its sends
        const auto number = [&](const Message& message) {
          return static_cast<size_t>(std::ranges::find(order, message) - order.begin());
        };
        const auto mine_before = [&](size_t end) {
          return std::ranges::count_if(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(end),
                                       [&](const Message& m) { return m.stage % shape.ranks == rank; });
        };
        std::ptrdiff_t done = 0;
        for (const auto& [work, chunk, micro] : order_of(shape, rank)) {
          if (work == Work::weights) continue;
          const int64_t stage = shape.stage_of(rank, chunk);
          const bool gradient = work == Work::backward;
          const int64_t from = gradient ? stage + 1 : stage - 1;
          if (from >= 0 && from < shape.stages() && from % shape.ranks == other) {
            const size_t needed = number({gradient, from, micro});
            ASSERT_LT(needed, order.size());
            EXPECT_LE(mine_before(needed), done);
          }
          const int64_t to = gradient ? stage - 1 : stage + 1;
          if (to >= 0 && to < shape.stages() && to % shape.ranks == other) {
            const size_t here = number({gradient, stage, micro});
            ASSERT_LT(here, order.size());
            EXPECT_GE(here, sent);
            sent = here;
            ++done;
          }
        }
      }
  }
}

/// (p - 1) / (m v + p - 1), if backwards are not split.
TEST(PipelineTimeline, BubbleMatchesThePapers) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(named(shape));
    const double waits = static_cast<double>(shape.ranks - 1), m = static_cast<double>(shape.micros);
    const Timeline timeline(shape);
    if (shape.schedule == Schedule::zero_bubble) {
      // (p - 1) (F + B - W), if there are enough micro-batches to fill the waits.
      if (shape.micros >= 2 * shape.ranks)
        EXPECT_NEAR(timeline.length(), 3 * m + waits, 1e-9);
      else
        EXPECT_LE(timeline.bubble(), waits / (m + waits) + 1e-9);
      continue;
    }
    EXPECT_NEAR(timeline.bubble(), waits / (m * static_cast<double>(shape.chunks) + waits), 1e-9);
  }
}

TEST(PipelineTimeline, ActivationsInFlightMatchThePapers) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(named(shape));
    const Timeline timeline(shape);
    for (int64_t rank = 0; rank < shape.ranks; ++rank) {
      const int64_t deep = shape.ranks - rank, flying = timeline.in_flight(rank);
      if (shape.schedule == Schedule::gpipe) {
        EXPECT_EQ(flying, shape.micros);
      } else if (shape.schedule == Schedule::one_f_one_b) {
        EXPECT_EQ(flying, std::min(deep, shape.micros));
      } else if (shape.schedule == Schedule::zero_bubble) {
        EXPECT_LE(flying, std::min(shape.ranks, shape.micros));
      }
    }
  }
}

/// The backward computes the gradient of the input only. The schedule decides when the weight's gradient is
/// computed.
TEST(DeferredWeights, WaitForTheirMicroBatch) {
  Param weight{.name = "w", .shape = {3, 2}};
  weight.leaf = at::randn({3, 2}, at::kDouble).requires_grad_();
  const Module module{"w", "linear", 0, {&weight}};
  DeferredWeights late;
  const auto linear = late.linear(module);
  const Tensor inputs = at::randn({2, 5, 2}, at::kDouble), upstream = at::randn({2, 5, 3}, at::kDouble);
  for (int64_t micro = 0; micro < 2; ++micro) {
    const Tensor x = inputs[micro].clone().requires_grad_();
    late.begin(micro);
    linear(x).backward(upstream[micro]);
    EXPECT_TRUE(at::allclose(x.grad(), at::matmul(upstream[micro], weight.leaf.detach()))) << micro;
    EXPECT_FALSE(weight.leaf.grad().defined()) << micro;
  }
  Tensor sum = at::zeros({3, 2}, at::kDouble);
  for (const int64_t micro : {1, 0}) {
    late.run(micro);
    sum += at::matmul(upstream[micro].t(), inputs[micro]);
    EXPECT_TRUE(at::allclose(weight.leaf.grad(), sum)) << micro;
  }
  late.run(0);
  EXPECT_TRUE(at::allclose(weight.leaf.grad(), sum)) << "each gradient is added once";
}

/// The best partition, by trying all.
double best_partition_cost(const std::vector<double>& costs, int64_t parts) {
  if (parts == 1) return std::accumulate(costs.begin(), costs.end(), 0.0);
  double best = std::numeric_limits<double>::infinity(), sum = 0;
  for (size_t i = 0; i + static_cast<size_t>(parts) <= costs.size(); ++i) {
    sum += costs[i];
    best = std::min(best, std::max(sum, best_partition_cost(
                                            {costs.begin() + static_cast<std::ptrdiff_t>(i) + 1, costs.end()},
                                            parts - 1)));
  }
  return best;
}

TEST(PipelinePartition, LargestPartIsMinimal) {
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 300; ++trial) {
    const int64_t count = std::uniform_int_distribution<int64_t>(1, 9)(random);
    const int64_t parts = std::uniform_int_distribution<int64_t>(1, count)(random);
    std::vector<double> costs;
    for (int64_t i = 0; i < count; ++i)
      costs.push_back(std::uniform_real_distribution<double>(0, 10)(random));
    const auto counts = even_parts(costs, parts);
    ASSERT_EQ(std::ssize(counts), parts);
    double largest = 0;
    size_t next = 0;
    for (const int64_t in_part : counts) {
      EXPECT_GE(in_part, 1);
      double sum = 0;
      for (int64_t i = 0; i < in_part; ++i) sum += costs.at(next++);
      largest = std::max(largest, sum);
    }
    EXPECT_EQ(next, costs.size());
    EXPECT_NEAR(largest, best_partition_cost(costs, parts), 1e-6);
  }
}

TEST(PipelineTimeline, BackwardTakesAsLongAsTwoForwards) {
  for (const int64_t chunks : {1, 2}) {
    const Costs usual = usual_costs({Schedule::one_f_one_b, 2, chunks, 4});
    EXPECT_EQ(usual.forward, 1.0 / static_cast<double>(chunks));
    EXPECT_EQ(usual.backward, 2 * usual.forward);
    const Costs parted = usual_costs({Schedule::zero_bubble, 2, chunks, 4});
    EXPECT_EQ(parted.backward + parted.weights, usual.backward) << "one for inputs and one for weights";
  }
}

TEST(PipelinePartition, EqualCostsAreCutEvenly) {
  EXPECT_THAT(even_parts({1, 1, 1, 1, 1, 1}, 3), ElementsAre(2, 2, 2));
  EXPECT_THAT(even_parts({0.1, 1, 1, 1, 1, 2}, 2), ElementsAre(4, 2));
  // The head is as expensive as three blocks. The blocks before it are not crowded into the first parts.
  EXPECT_THAT(even_parts({0, 1, 1, 1, 1, 1, 1, 1, 1, 3}, 5), ElementsAre(3, 2, 2, 2, 1));
}
}  // namespace
}  // namespace optrush::pipeline_parallel
