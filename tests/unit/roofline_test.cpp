#include "report/sections/roofline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "analysis/quantities.h"
#include "report/writers/writers.h"

namespace optrush {
namespace {
/// A machine with 10 GB/s and 200 GFLOP/s. A row moves 1 GB in 0.2 s in the forward and 3 GB in 0.5 s in the
/// backward.
Analysis with_forward_flops(double forward_flops) {
  Analysis a;
  a.context = {{"peak", {{"dtype_flops", {{"fp32", 200e9}}}}}, {"bandwidth_bytes_per_second", 10e9}};
  a.variants.push_back({.name = "norm"});
  Row row{.name = "norm"};
  row.phases = {{"data", 1.0}, {"forward", 0.2}, {"backward", 0.5}, {"optimizer", 0.1}};
  row.work = OperatorWork{.forward = {1e9, forward_flops}, .backward = {3e9, 3e9}};
  a.rows.push_back(row);
  return a;
}

double grid_value(const Analysis& a, const std::string& column) {
  return quantity_of_grid(column)->value(a, a.rows[0]).value();
}

TEST(Roofline, FewFlopsPerByteAreBoundByMemory) {
  const Analysis a = with_forward_flops(2e9);
  const auto points = roofline_points(a);
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0].phase, "forward");
  EXPECT_DOUBLE_EQ(points[0].roof.ridge(), 20);
  EXPECT_DOUBLE_EQ(points[0].intensity, 2);
  EXPECT_TRUE(points[0].memory_bound());
  EXPECT_DOUBLE_EQ(points[0].share(), 0.5) << "10 GFLOP/s of the 20 GFLOP/s that the bandwidth allows";
  EXPECT_EQ(roofline_section(a).table->rows[0][3], "memory");
}

TEST(Roofline, ManyFlopsPerByteAreBoundByArithmetic) {
  const Analysis a = with_forward_flops(30e9);
  const auto points = roofline_points(a);
  EXPECT_FALSE(points[0].memory_bound());
  EXPECT_DOUBLE_EQ(points[0].share(), 0.75) << "150 of 200 GFLOP/s";
  const auto charts = charts_of(a);
  const auto drawn = std::ranges::find(charts, "roofline", &Chart::name);
  ASSERT_NE(drawn, charts.end());
  EXPECT_EQ(drawn->data.at("points").size(), points.size());
  EXPECT_EQ(drawn->data.at("roofs").size(), 1U) << "one dtype";
}

TEST(Roofline, IsLeftOutWithoutWorkOrPeak) {
  Analysis a = with_forward_flops(1e9);
  a.rows[0].work.reset();
  EXPECT_FALSE(roofline_section(a).table);
  EXPECT_EQ(std::ranges::count(charts_of(a), "roofline", &Chart::name), 0);
  a = with_forward_flops(1e9);
  a.context.erase("peak");
  EXPECT_TRUE(roofline_points(a).empty());
}

TEST(GridQuantities, RatesDivideTheWorkByTheTimeOfItsPhase) {
  const Analysis a = with_forward_flops(2e9);
  EXPECT_DOUBLE_EQ(grid_value(a, "forward_bandwidth"), 5e9);
  EXPECT_DOUBLE_EQ(grid_value(a, "backward_bandwidth"), 6e9);
  EXPECT_DOUBLE_EQ(grid_value(a, "forward_bandwidth_share"), 0.5);
  EXPECT_DOUBLE_EQ(grid_value(a, "backward_flops"), 6e9);
  EXPECT_DOUBLE_EQ(grid_value(a, "intensity"), 1.25);
}

TEST(Quantities, NamesAreUniqueInEachPlace) {
  const Analysis a = with_forward_flops(2e9);
  for (const auto place : {&Quantity::csv, &Quantity::json, &Quantity::grid, &Quantity::compared,
                           &Quantity::tracked, &Quantity::run}) {
    std::set<std::string> names;
    for (const Quantity& q : quantities()) {
      const bool number = q.value != nullptr || q.of_run != nullptr;
      EXPECT_NE(number, q.word != nullptr) << q.csv << q.grid;
      EXPECT_TRUE(q.run.empty() || q.of_run != nullptr) << q.run;
      const std::string name = q.*place;
      EXPECT_TRUE(name.empty() || names.insert(name).second) << name;
    }
  }
  for (const auto& name : grid_column_names()) {
    const Quantity* q = quantity_of_grid(name);
    ASSERT_NE(q, nullptr) << name;
    EXPECT_NO_THROW(cell_of(*q, a, a.rows[0])) << name;
    EXPECT_FALSE(title_in_grid(*q).empty()) << name;
  }
}
}  // namespace
}  // namespace optrush
