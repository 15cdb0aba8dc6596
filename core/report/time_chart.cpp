#include <algorithm>
#include <limits>

#include "report/chart_parts.h"
#include "report/format.h"
#include "report/time_to_loss.h"

namespace optrush {
std::vector<const Row*> rows_over_time(const Analysis& a, const std::vector<const Row*>& rows) {
  std::vector<const Row*> found;
  for (const Row* row : rows)
    if (row->ok() && row->runs_of() == row->variant &&
        (a.experiment.target_loss > 0 || !row->validation.empty()) &&
        !losses_by_time(row->steps, row->validation).empty())
      found.push_back(row);
  // Losses of two kinds are not compared.
  if (std::ranges::any_of(found, [](const Row* row) { return !row->validation.empty(); }))
    std::erase_if(found, [](const Row* row) { return row->validation.empty(); });
  // Alone it is the curve of the losses.
  return found.size() > 1 ? found : std::vector<const Row*>();
}

Json time_chart(const Analysis& a, const std::vector<const Row*>& rows) {
  std::vector<std::string> names;
  Json values = Json::array();
  const auto shown = rows_over_time(a, rows);
  for (const Row* row : shown) {
    names.push_back(row->name);
    for (const TimedLoss& loss : losses_by_time(row->steps, row->validation))
      values.push_back(
          {{"line", row->name}, {"seconds", loss.seconds}, {"steps", loss.steps}, {"loss", loss.loss}});
  }
  const bool validated = !shown.empty() && !shown.front()->validation.empty();
  Json mark = {{"type", "line"}, {"strokeWidth", 2}};
  if (validated) mark["point"] = {{"shape", "diamond"}, {"filled", true}, {"size", 50}};
  const Json tooltip = {{{"field", "line"}, {"title", "rung"}},
                        {{"field", "steps"}, {"title", "steps"}},
                        {{"field", "seconds"}, {"title", "seconds"}, {"format", ",.4~g"}},
                        {{"field", "loss"}, {"title", "loss"}, {"format", ",.6~g"}}};
  Json seconds = quantity("seconds", "seconds of training");
  seconds["scale"] = {{"zero", true}, {"nice", false}};
  Json layers = Json::array(
      {{{"mark", mark},
        {"encoding",
         {{"x", seconds},
          {"y",
           {{"field", "loss"}, {"type", "quantitative"}, {"title", "loss"}, {"scale", {{"zero", false}}}}},
          {"color", colour_by("line", names)},
          {"strokeDash", dash_by("line", names)},
          {"tooltip", tooltip}}}}});
  if (a.experiment.target_loss > 0) layers.push_back(target_line(a.experiment.target_loss));
  const std::string what = validated ? "on data that training never reads"
                                     : "mean of the last " + std::to_string(kSmoothedSteps) + " steps";
  return chart_of(a, "loss over time", what + "; first round, warm-up included, validation not",
                  std::move(values), std::move(layers));
}

Section time_section(const Analysis& a, const Family& family) {
  const auto rows = rows_over_time(a, family.rows);
  if (rows.empty()) return {};
  double shortest = std::numeric_limits<double>::infinity();
  for (const Row* row : rows)
    shortest = std::min(shortest, losses_by_time(row->steps, row->validation).back().seconds);
  Section section{.title = title_for("Loss over time", family),
                  .chart = "time" + family.suffix,
                  .caption = "The loss of each rung's first round over the seconds that its steps took."};
  Table table{{{"rung"}, {"loss after " + duration(shortest), true}, {"last loss", true}, {"after", true}},
              {}};
  for (const Row* row : rows) {
    const auto losses = losses_by_time(row->steps, row->validation);
    table.rows.push_back({row->name,
                          or_unknown(loss_at(losses, shortest), [](double x) { return fixed(x, 4); }),
                          fixed(losses.back().loss, 4), duration(losses.back().seconds)});
  }
  section.table = std::move(table);
  section.bullets = {
      "The first column compares equally long training: it is of the time when the quickest had made all "
      "its steps, along the line between two losses."};
  return section;
}
}  // namespace optrush
