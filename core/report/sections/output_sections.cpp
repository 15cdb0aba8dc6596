// What the runs leave in the report's folder: traces, states and sampled texts.
#include <algorithm>
#include <filesystem>

#include "analysis/numbers/format.h"
#include "analysis/numbers/statistics.h"
#include "analysis/quantities.h"
#include "base/printable.h"
#include "report/sections/document.h"

namespace optrush {
namespace {
/// ", rank 1" for "runs/01-two-ranks-r1/ranks/1/trace.json".
std::string rank_of(const std::string& file) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  return folder.parent_path().filename() == "ranks" ? ", rank " + folder.filename().string() : "";
}

/// Joins lines, because a cell has one line.
std::string in_a_line(std::string_view text) {
  std::string line;
  for (const char c : text) line += c == '\n' ? std::string("⏎") : std::string(1, c == '\t' ? ' ' : c);
  return printable(line);
}

/// A column for each kind of work that any row has.
Table work_table(const Analysis& a, const Rows& rows) {
  Table table;
  table.add({"rung"}, rows, &Row::name);
  table.add({"timed step", true}, rows,
            [](const Row* row) { return or_unknown(row->step_seconds, duration); });
  table.add({"traced step", true}, rows, [](const Row* row) { return duration(total_seconds(row->traced)); });
  for (const Quantity& q : quantities()) {
    const auto part_of = [&](const Row* row) { return number_of(q, a, *row).value_or(0); };
    if (!q.csv.starts_with("traced_") ||
        std::ranges::none_of(rows, [&](const Row* row) { return part_of(row) > 0; }))
      continue;
    table.add({q.title, true}, rows, [&](const Row* row) {
      const double part = part_of(row), step = total_seconds(row->traced);
      return duration(part) + " (" + percent(step > 0 ? part / step : 0, 0) + ")";
    });
  }
  return table;
}
}  // namespace

Section trace_section(const Analysis& a) {
  Section section{.title = "Traces", .lead = "These files are Chrome traces of one step of each rung."};
  for (const Row& row : a.rows)
    for (const std::string& file : row.traces) section.links.push_back({row.name + rank_of(file), file});
  if (section.links.empty() && !a.experiment.trace) return section;
  section.paragraphs = {
      "The traced step follows the timed steps of the first round. Open a trace in ui.perfetto.dev or "
      "chrome://tracing. Phases are ranges above the operators."};
  const Rows summed =
      rows_where(a.rows, [](const Row& row) { return row.same_as < 0 && !row.traced.empty(); });
  if (!summed.empty()) {
    section.lead = "This table shows the use of the time of one traced step of each rung.";
    section.table = work_table(a, summed);
    section.bullets.emplace_back(
        "The parts add up to the traced step, which the profiler makes longer than a timed step. Of work "
        "that overlaps, the first column counts. Gaps are times in which no kernel runs on a GPU, or no "
        "operator computes on a CPU. Attention that is not fused counts as products and softmax.");
  }
  for (const Row& row : a.rows)
    if (row.ok() && row.traces.empty())
      section.bullets.push_back(row.name + ": no trace" +
                                (row.external ? ", because its program wrote none" : ""));
  return section;
}

Section state_section(const Analysis& a) {
  Section section{
      .title = "Saved states",
      .lead = "This table lists the last saved state of each rung.",
      .table = Table({"rung", "folder", ">next step", ">size", ">predicted", ">saved in"}),
      .bullets = {"Each state is from the first round of its rung. Step times do not include saving.",
                  "To continue from a state, set start = \"FOLDER\" in an experiment.",
                  "To export its weights, run optrush weights FOLDER OUT.",
                  "\"Predicted\" is the size that the plan states before the training.",
                  "\"Saved in\" is the median time of all saves of the run."}};
  for (const Row& row : a.rows) {
    if (row.saved.empty()) continue;
    std::vector<double> seconds;
    for (const SavedPoint& point : row.saved) seconds.push_back(point.seconds);
    const SavedPoint& last = row.saved.back();
    section.table->rows.push_back({row.name, row.state, std::to_string(last.step), bytes(last.bytes),
                                   or_unknown(row.predicted_state, bytes), duration(*median(seconds))});
  }
  return section;
}

Section best_section(const Analysis& a) {
  Section section{
      .title = "Best states",
      .lead = "This table lists the state with the lowest validation loss of each rung.",
      .paragraphs =
          {"Each state is from the first round of its rung. To export the weights of a state, run optrush "
           "weights FOLDER OUT. To continue from it, set start = \"FOLDER\" in an experiment."},
      .table = Table({"rung", "folder", ">after step", ">validation loss"})};
  for (const Row& row : a.rows)
    if (row.best)
      section.table->rows.push_back(
          {row.name, row.best_state, std::to_string(row.best->step), fixed(row.best->loss, 4)});
  return section;
}

Section sample_section(const Analysis& a) {
  Section section{.title = "Samples",
                  .lead = "This table shows how each rung's model continues the prompts after training.",
                  .paragraphs = {"The model is from the first round, after its last step. Each token is the "
                                 "most probable one; ⏎ is a line end."},
                  .table = Table({"rung", "prompt", "continuation"})};
  for (const Row& row : a.rows)
    for (const SampledText& sampled : row.sample)
      section.table->rows.push_back({row.name, in_a_line(sampled.prompt), in_a_line(sampled.text)});
  return section;
}
}  // namespace optrush
