#include <algorithm>
#include <cmath>

#include "analysis/numbers/format.h"
#include "analysis/numbers/statistics.h"
#include "base/text.h"
#include "report/claims/claims.h"
#include "report/sections/document.h"

namespace optrush {
namespace {
/// With more ranks, only the slowest, the fastest, the one with the most memory and the first are shown.
constexpr size_t kMostRanks = 16;
/// A rank is a straggler if it is busy this much longer than the median rank.
constexpr double kStraggles = 1.1;

std::optional<double> median_busy(const Row& row) {
  std::vector<double> busy;
  for (const RankResult& rank : row.ranks)
    if (rank.busy_seconds) busy.push_back(*rank.busy_seconds);
  return median(busy);
}

bool straggles(const RankResult& rank, const std::optional<double>& median) {
  return rank.busy_seconds && median && *rank.busy_seconds > kStraggles * *median;
}

std::vector<const RankResult*> shown_ranks(const Row& row) {
  std::vector<const RankResult*> shown;
  for (const RankResult& rank : row.ranks) shown.push_back(&rank);
  if (shown.size() <= kMostRanks) return shown;
  const auto by = [&](std::optional<double> RankResult::*member) {
    return std::ranges::minmax_element(row.ranks, {},
                                       [=](const RankResult& rank) { return (rank.*member).value_or(0); });
  };
  const auto busy = by(&RankResult::busy_seconds);
  const std::vector<const RankResult*> wanted = {&row.ranks.front(), &*busy.min, &*busy.max,
                                                 &*by(&RankResult::peak_allocated).max};
  std::erase_if(shown, [&](const RankResult* rank) { return std::ranges::count(wanted, rank) == 0; });
  return shown;
}

void add_remarks(const Row& row, const std::optional<double>& median, size_t shown, Section& section) {
  for (const RankResult& rank : row.ranks)
    if (straggles(rank, median))
      section.bullets.push_back(row.name + ": rank " + std::to_string(rank.rank) +
                                (rank.host.empty() ? "" : " on " + rank.host) + " is busy " +
                                percent(*rank.busy_seconds / *median - 1, 0) +
                                " longer than the median rank; the others wait for it.");
  if (shown < row.ranks.size())
    section.bullets.push_back(row.name + ": " + std::to_string(shown) + " of " +
                              std::to_string(row.ranks.size()) +
                              " ranks are shown: the first, those that are busy longest and shortest, and "
                              "that with the largest peak. results.json has all.");
}

std::string over_theory(const Collective& c) {
  if (!c.sent_bytes || c.theory_bytes.value_or(0) <= 0) return kUnknown;
  return fixed(*c.sent_bytes / *c.theory_bytes, 3) + "x";
}

/// For example "dp 2 × tp 4".
std::string mesh_text(const Row& row) {
  const auto text = [](const MeshDimension& each) { return each.name + " " + std::to_string(each.size); };
  return join(texts_of(row.mesh, text), " × ");
}

/// Time and its share of a step: "12.3 ms (4.1 %)".
std::string exposed_cell(const Row& row) {
  if (!row.exposed_seconds) return kUnknown;
  const std::string time = duration(*row.exposed_seconds);
  if (row.step_seconds.value_or(0) <= 0) return time;
  return time + " (" + percent(*row.exposed_seconds / *row.step_seconds) + ")";
}

std::vector<std::string> point_line(const Analysis& a, const ScalingSeries& series,
                                    const ScalingPoint& point) {
  const Row& row = *a.row(point.variant);
  return {series.title(),
          row.name,
          std::to_string(point.ranks),
          exact_number(std::round(point.growth * 100) / 100) + "x",
          std::to_string(point.global_batch),
          or_unknown(row.tokens_per_second, grouped),
          or_unknown(point.speedup, ratio_text),
          point.efficiency_text(),
          exposed_cell(row)};
}
}  // namespace

Section rank_section(const Analysis& a) {
  Section section{.title = "Ranks",
                  .lead = "This table shows the memory, time and communication of each rank.",
                  .paragraphs = {"Times are medians over timed steps and rounds. Peak memory is the largest "
                                 "of all rounds. Busy is the step time without exposed communication. A rank "
                                 "that is busy more than 10 % longer than the median rank is a straggler."},
                  .table = Table({"rung", "mesh", ">rank", "host", "device", ">peak memory",
                                  ">model states and activations", ">step", ">busy", ">exposed communication",
                                  ">sent per step", "straggler"})};
  for (const Row& row : a.rows) {
    if (row.ranks.size() < 2) continue;
    const auto median = median_busy(row);
    const auto shown = shown_ranks(row);
    for (const RankResult* rank : shown)
      section.table->rows.push_back(
          {row.name, mesh_text(row), std::to_string(rank->rank), rank->host.empty() ? kUnknown : rank->host,
           rank->device.empty() ? kUnknown : rank->device, or_unknown(rank->peak_allocated, bytes),
           or_unknown(rank->parts, bytes), or_unknown(rank->step_seconds, duration),
           or_unknown(rank->busy_seconds, duration), or_unknown(rank->exposed_seconds, duration),
           or_unknown(rank->sent_bytes, bytes), straggles(*rank, median) ? "yes" : ""});
    add_remarks(row, median, shown.size(), section);
  }
  return section;
}

Section collective_section(const Analysis& a) {
  Section section{.title = "Collectives",
                  .lead = "This table compares the bytes that collectives send with the theoretical minimum.",
                  .paragraphs = {"All figures are of rank 0, per timed step: the bytes of the tensors, the "
                                 "bytes that the rank sends, and the theoretical minimum of these."},
                  .table = Table({"rung", "collective", "group", ">ranks", ">calls", ">tensors", ">sent",
                                  ">minimum", ">sent / minimum"})};
  bool of_experts = false;
  for (const Row& row : a.rows)
    for (const Collective& c : row.collectives) {
      of_experts = of_experts || (c.group == "ep" && c.name == "all_to_all" && c.theory_bytes);
      section.table->rows.push_back({row.name, c.name, c.group.empty() ? kUnknown : c.group,
                                     std::to_string(c.ranks), or_unknown(c.calls, exact_number),
                                     or_unknown(c.bytes, bytes), or_unknown(c.sent_bytes, bytes),
                                     or_unknown(c.theory_bytes, bytes), over_theory(c)});
    }
  if (of_experts)
    section.paragraphs.front() +=
        " The minimum of an all_to_all of experts assumes that all ranks get equally many rows.";
  return section;
}

Section scaling_section(const Analysis& a) {
  Section section{.title = "Scaling",
                  .chart = "scaling",
                  .caption =
                      "The chart shows tokens/s relative to the fewest ranks. The dashed line is ideal "
                      "scaling; vertical bars are the intervals of the speedups."};
  if (a.scaling.empty()) return section;
  section.lead = "This table compares rows that differ in their number of ranks.";
  section.paragraphs = {
      "In weak scaling, each rank keeps its batch and the global batch grows. In strong scaling, the global "
      "batch stays the same. Efficiency is the speedup divided by the growth of the hardware: the number of "
      "GPUs, or the number of CPU threads up to the number of cores. Ranks that share the same hardware have "
      "none."};
  section.table = Table({"series", "rung", ">ranks", ">hardware", ">sequences per step", ">tokens/s",
                         ">speedup", ">efficiency", ">exposed communication"});
  for (const ScalingSeries& series : a.scaling)
    for (const ScalingPoint& point : series.points)
      section.table->rows.push_back(point_line(a, series, point));
  for (const Row& row : a.rows)
    if (!row.ok() && row.started && row.devices > 1)
      section.bullets.push_back(name_in_text(row.name) + " (" + counted(row.devices, "rank") + ") " +
                                what_happened(row.status) + ", so the table does not have it.");
  return section;
}
}  // namespace optrush
