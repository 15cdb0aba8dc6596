#include <cmath>
#include <vector>

#include "report/analysis/quantities.h"
#include "report/numbers/format.h"
#include "report/writers/tracking.h"

namespace optrush {
namespace {
std::string number_cell(double value) { return std::isfinite(value) ? exact_number(value) : ""; }
std::string number_cell(const std::optional<double>& value) { return value ? number_cell(*value) : ""; }

/// The phases of a step, in order. External programs may report others.
const std::vector<std::string> kPhases = {"data", "forward", "backward", "communication", "optimizer"};

void add_phases(const Phases& phases, std::vector<std::string>& cells) {
  for (const std::string& wanted : kPhases) {
    cells.emplace_back();
    for (const auto& [name, seconds] : phases)
      if (name == wanted) cells.back() = number_cell(seconds);
  }
}

void add_titles(std::vector<std::string>& titles) {
  for (const std::string& phase : kPhases) titles.push_back(phase + "_seconds");
}

void add_line(const std::vector<std::string>& cells, std::string& text) {
  for (size_t i = 0; i < cells.size(); ++i) text += (i == 0 ? "" : ",") + csv_field(cells[i]);
  text += "\n";
}

std::vector<std::string> head_of(const Analysis& a, const StoredRun& run) {
  return {run.id, std::to_string(run.spec.variant), a.row(run.spec.variant)->name,
          std::string(to_string(run.spec.purpose)), std::to_string(run.spec.round + 1)};
}
const std::vector<std::string> kHead = {"run", "variant", "rung", "purpose", "round"};
}  // namespace

std::string runs_csv(const Analysis& a) {
  std::vector<std::string> titles = kHead;
  titles.emplace_back("status");
  for (const Quantity& q : quantities())
    if (*q.run != '\0') titles.emplace_back(q.run);
  add_titles(titles);
  std::string text;
  add_line(titles, text);
  for (const StoredRun& run : a.runs) {
    const RunResult& result = run.result;
    auto cells = head_of(a, run);
    cells.emplace_back(to_string(result.status));
    for (const Quantity& q : quantities())
      if (*q.run != '\0') cells.push_back(number_cell(q.of_run(result)));
    add_phases(result.phases, cells);
    add_line(cells, text);
  }
  return text;
}

std::string steps_csv(const Analysis& a) {
  std::vector<std::string> titles = kHead;
  titles.insert(titles.end(), {"step", "timed", "loss", "grad_norm", "learning_rate", "processed_tokens",
                               "trained_tokens", "positions", "seconds"});
  add_titles(titles);
  std::string text;
  add_line(titles, text);
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
