#include <algorithm>

#include "analysis/numbers/format.h"
#include "base/text.h"
#include "report/sections/document.h"

namespace optrush {
namespace {
std::string mean_of_last(const Row& row) {
  double sum = 0;
  for (const RoundEnd& end : row.ends) sum += end.last;
  return row.ends.empty() ? std::string(kUnknown) : fixed(sum / static_cast<double>(row.ends.size()), 4);
}

/// The rows that differ from the base by a time to the loss or by a loss.
bool is_compared(const Row& row) { return row.ok() && (row.base.time_to_loss || row.base.perplexity); }
}  // namespace

Section equal_loss_section(const Analysis& a) {
  if (std::ranges::none_of(a.rows, is_compared)) return {};
  const bool timed =
      std::ranges::any_of(a.rows, [](const Row& row) { return row.base.time_to_loss.has_value(); });
  const bool seeded =
      std::ranges::any_of(a.rows, [](const Row& row) { return row.base.perplexity.has_value(); });
  Section section{.title = timed ? "Time to an equal loss" : "Losses over seeds",
                  .lead = "Each rung is compared with the base in the same rounds" +
                          std::string(a.experiment.seeds.empty() ? "." : ", which have the same seeds."),
                  .table = Table({"rung", ">tokens/s vs base"})};
  auto& columns = section.table->columns;
  if (timed)
    for (const char* title : {"steps", "time to loss", "as soon as the base"})
      columns.push_back({title, true});
  if (seeded)
    for (const char* title : {"last loss, mean", "difference from the base"})
      columns.push_back({title, true});
  for (const Row& row : a.rows) {
    if (!is_compared(row) && !(row.variant == 0 && row.ok())) continue;
    std::vector<std::string> cells = {row.name, or_unknown(row.base.speed, ratio_text)};
    if (timed) {
      const auto& time = row.time_to_loss;
      cells.push_back(time && time->steps ? std::to_string(*time->steps) : std::string(kUnknown));
      cells.push_back(time && time->seconds ? duration(*time->seconds) : text_of(time));
      cells.push_back(or_unknown(row.base.time_to_loss, ratio_text));
    }
    if (seeded) {
      cells.push_back(mean_of_last(row));
      cells.push_back(or_unknown(row.base.perplexity, difference_text));
    }
    section.table->rows.push_back(std::move(cells));
  }
  if (timed)
    section.bullets.emplace_back(
        "1.05x as soon means that the rung needs 1/1.05 of the base's training time. Steps are of the round "
        "with the "
        "most; the time is the median of the rounds.");
  if (seeded)
    section.bullets.push_back(
        "The last loss is the last validation loss, or without validation the mean of the last " +
        std::to_string(kSmoothedSteps) + " training losses. Differences are means over seeds.");
  section.bullets.emplace_back("In brackets are paired t intervals over the rounds.");
  return section;
}
}  // namespace optrush
