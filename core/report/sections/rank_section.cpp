#include <algorithm>

#include "base/suggest.h"
#include "report/numbers/format.h"
#include "report/numbers/statistics.h"
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
    section.bullets.push_back(
        row.name + ": " + std::to_string(shown) + " of " + std::to_string(row.ranks.size()) +
        " ranks are shown: the first, those that are busy longest and shortest, and that "
        "with the largest peak. results.json has all.");
}

std::string over_theory(const Collective& c) {
  if (!c.sent_bytes || c.theory_bytes.value_or(0) <= 0) return std::string(kUnknown);
  return fixed(*c.sent_bytes / *c.theory_bytes, 3) + "x";
}

/// For example "dp 2 × tp 4".
std::string mesh_text(const Row& row) {
  std::vector<std::string> parts;
  for (const auto& dimension : row.mesh)
    parts.push_back(dimension.name + " " + std::to_string(dimension.size));
  return join(parts, " × ");
}
}  // namespace

Section rank_section(const Analysis& a) {
  Section section{.title = "Ranks",
                  .lead = "This table shows the memory, time and communication of each rank."};
  Table table{{{"rung"},
               {"mesh"},
               {"rank", true},
               {"host"},
               {"device"},
               {"peak memory", true},
               {"model states and activations", true},
               {"step", true},
               {"busy", true},
               {"exposed communication", true},
               {"sent per step", true},
               {"straggler"}},
              {}};
  for (const Row& row : a.rows) {
    if (row.ranks.size() < 2) continue;
    const auto median = median_busy(row);
    const auto shown = shown_ranks(row);
    for (const RankResult* rank : shown)
      table.rows.push_back({row.name, mesh_text(row), std::to_string(rank->rank),
                            rank->host.empty() ? std::string(kUnknown) : rank->host,
                            rank->device.empty() ? std::string(kUnknown) : rank->device,
                            or_unknown(rank->peak_allocated, bytes), or_unknown(rank->parts, bytes),
                            or_unknown(rank->step_seconds, duration),
                            or_unknown(rank->busy_seconds, duration),
                            or_unknown(rank->exposed_seconds, duration), or_unknown(rank->sent_bytes, bytes),
                            straggles(*rank, median) ? "yes" : ""});
    add_remarks(row, median, shown.size(), section);
  }
  if (table.rows.empty()) return section;
  section.paragraphs = {
      "Times are medians over timed steps and rounds. Peak memory is the largest of all rounds. Busy is the "
      "step time without exposed communication. A rank that is busy more than 10 % longer than the median "
      "rank "
      "is a straggler."};
  section.table = std::move(table);
  return section;
}

Section collective_section(const Analysis& a) {
  Section section{
      .title = "Collectives",
      .lead = "This table compares the bytes that collectives send with the theoretical minimum."};
  Table table{{{"rung"},
               {"collective"},
               {"group"},
               {"ranks", true},
               {"calls", true},
               {"tensors", true},
               {"sent", true},
               {"minimum", true},
               {"sent / minimum", true}},
              {}};
  for (const Row& row : a.rows)
    for (const Collective& c : row.collectives)
      table.rows.push_back({row.name, c.name, c.group.empty() ? std::string(kUnknown) : c.group,
                            std::to_string(c.ranks), or_unknown(c.calls, exact_number),
                            or_unknown(c.bytes, bytes), or_unknown(c.sent_bytes, bytes),
                            or_unknown(c.theory_bytes, bytes), over_theory(c)});
  if (table.rows.empty()) return section;
  section.paragraphs = {
      "All figures are of one timed step of rank 0: the bytes of the tensors, the bytes that the rank sends, "
      "and the theoretical minimum of these."};
  section.table = std::move(table);
  return section;
}
}  // namespace optrush
