#include <cmath>
#include <vector>

#include "analysis/numbers/format.h"
#include "analysis/quantities.h"
#include "report/writers/tracking.h"
#include "report/writers/writers.h"

namespace optrush {
namespace {
void add_line(const std::vector<std::string>& cells, std::string& text) {
  for (size_t i = 0; i < cells.size(); ++i) text += (i == 0 ? "" : ",") + csv_field(cells[i]);
  text += "\n";
}

std::string number_cell(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? exact_number(*value) : "";
}

/// The phases of a step, in order. External programs may report others.
const std::vector<std::string> kPhases = {"data", "forward", "backward", "communication", "optimizer"};

void add_phases(const Phases& phases, std::vector<std::string>& cells) {
  for (const std::string& name : kPhases) cells.push_back(number_cell(value_named(phases, name)));
}

/// The titles of a table with a line per run or step.
std::string title_line(const std::vector<std::string>& columns) {
  std::vector<std::string> titles = {"run", "variant", "rung", "purpose", "round"};
  titles.insert(titles.end(), columns.begin(), columns.end());
  for (const std::string& phase : kPhases) titles.push_back(phase + "_seconds");
  std::string text;
  add_line(titles, text);
  return text;
}

std::vector<std::string> head_of(const Analysis& a, const StoredRun& run) {
  return {run.id, std::to_string(run.spec.variant), a.row(run.spec.variant)->name,
          std::string(to_string(run.spec.purpose)), std::to_string(run.spec.round + 1)};
}
}  // namespace

std::string csv(const Analysis& a) {
  std::string text;
  const auto add = [&](auto&& cell) {
    std::vector<std::string> cells;
    for (const Quantity& q : quantities())
      if (!q.csv.empty()) cells.push_back(cell(q));
    add_line(cells, text);
  };
  add([](const Quantity& q) { return q.csv; });
  for (const Row& row : a.rows)
    add([&](const Quantity& q) {
      const auto value = q.word ? std::nullopt : number_of(q, a, row);
      return q.word ? q.word(a, row) : value ? exact_number(*value) : "";
    });
  return text;
}

std::string runs_csv(const Analysis& a) {
  std::vector<std::string> columns = {"status"};
  for (const Quantity& q : quantities())
    if (!q.run.empty()) columns.push_back(q.run);
  std::string text = title_line(columns);
  for (const StoredRun& run : a.runs) {
    auto cells = head_of(a, run);
    cells.emplace_back(to_string(run.result.status));
    for (const Quantity& q : quantities())
      if (!q.run.empty()) cells.push_back(number_cell(q.of_run(run.result)));
    add_phases(run.result.phases, cells);
    add_line(cells, text);
  }
  return text;
}

std::string steps_csv(const Analysis& a) {
  std::string text = title_line({"step", "timed", "loss", "grad_norm", "learning_rate", "processed_tokens",
                                 "trained_tokens", "positions", "seconds"});
  for (const StoredRun& run : a.runs)
    for (const StepResult& step : run.result.steps) {
      auto cells = head_of(a, run);
      cells.insert(cells.end(),
                   {std::to_string(step.step), step.timed ? "1" : "0", number_cell(step.loss),
                    number_cell(step.grad_norm), number_cell(step.learning_rate), std::to_string(step.tokens),
                    std::to_string(step.trained), std::to_string(step.positions), number_cell(step.seconds)});
      add_phases(step.phases, cells);
      add_line(cells, text);
    }
  return text;
}
}  // namespace optrush
