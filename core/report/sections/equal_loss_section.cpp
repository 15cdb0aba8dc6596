#include <algorithm>

#include "analysis/numbers/format.h"
#include "base/text.h"
#include "report/sections/document.h"

namespace optrush {
namespace {
std::string mean_of_last(const Row& row) {
  double sum = 0;
  for (const RoundEnd& end : row.ends) sum += end.last;
  return row.ends.empty() ? kUnknown : fixed(sum / static_cast<double>(row.ends.size()), 4);
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
                          std::string(a.experiment.seeds.empty() ? "." : ", which have the same seeds.")};
  const Rows rows =
      rows_where(a.rows, [](const Row& row) { return is_compared(row) || (row.variant == 0 && row.ok()); });
  Table table;
  const auto add = [&](const char* title, auto&& cell) { table.add({title, true}, rows, cell); };
  table.add({"rung"}, rows, &Row::name);
  add("tokens/s vs base", [](const Row* row) { return or_unknown(row->base.speed, ratio_text); });
  if (timed) {
    add("steps", [](const Row* row) {
      const auto& time = row->time_to_loss;
      return time && time->steps ? std::to_string(*time->steps) : kUnknown;
    });
    add("time to loss", [](const Row* row) {
      const auto& time = row->time_to_loss;
      return time && time->seconds ? duration(*time->seconds) : text_of(time);
    });
    add("as soon as the base", [](const Row* row) { return or_unknown(row->base.time_to_loss, ratio_text); });
  }
  if (seeded) {
    add("last loss, mean", [](const Row* row) { return mean_of_last(*row); });
    add("difference from the base",
        [](const Row* row) { return or_unknown(row->base.perplexity, difference_text); });
  }
  section.table = std::move(table);
  if (timed)
    section.bullets.emplace_back(
        "1.05x as soon means that the rung needs 1/1.05 of the base's training time. Steps are of the round "
        "with the most; the time is the median of the rounds.");
  if (seeded)
    section.bullets.push_back(
        "The last loss is the last validation loss, or without validation the mean of the last " +
        std::to_string(kSmoothedSteps) + " training losses. Differences are means over seeds.");
  section.bullets.emplace_back("In brackets are paired t intervals over the rounds.");
  return section;
}
}  // namespace optrush
