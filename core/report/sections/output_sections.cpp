// What the runs leave in the report's folder: traces, states and sampled texts.
#include <filesystem>

#include "base/printable.h"
#include "report/numbers/format.h"
#include "report/numbers/statistics.h"
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
}  // namespace

Section trace_section(const Analysis& a) {
  Section section{.title = "Traces", .lead = "These files are Chrome traces of one step of each rung."};
  for (const Row& row : a.rows)
    for (const std::string& file : row.traces) section.links.push_back({row.name + rank_of(file), file});
  if (section.links.empty() && !a.experiment.trace) return section;
  section.paragraphs = {
      "The traced step follows the timed steps of the first round. Open a trace in ui.perfetto.dev or "
      "chrome://tracing. Phases are ranges above the operators."};
  for (const Row& row : a.rows)
    if (row.ok() && row.traces.empty())
      section.bullets.push_back(row.name + ": no trace" +
                                (row.external ? ", because another program trains it" : ""));
  return section;
}

Section state_section(const Analysis& a) {
  Section section{.title = "Saved states",
                  .lead = "This table lists the last saved state of each rung.",
                  .table = Table({"rung", "folder", ">next step", ">size", ">saved in"}),
                  .bullets = {"Each state is from the first round of its rung. Step times do not include "
                              "saving.",
                              "To continue from a state, set start = \"FOLDER\" in an experiment.",
                              "To export its weights, run optrush weights FOLDER OUT.",
                              "\"Saved in\" is the median time of all saves of the run."}};
  for (const Row& row : a.rows) {
    if (row.saved.empty()) continue;
    std::vector<double> seconds;
    for (const SavedPoint& point : row.saved) seconds.push_back(point.seconds);
    const SavedPoint& last = row.saved.back();
    section.table->rows.push_back(
        {row.name, row.state, std::to_string(last.step), bytes(last.bytes), duration(*median(seconds))});
  }
  return section;
}

Section best_section(const Analysis& a) {
  Section section{
      .title = "Best states",
      .lead = "This table lists the state with the lowest validation loss of each rung.",
      .paragraphs = {"Each state is from the first round of its rung. To export the weights of a state, run "
                     "optrush weights FOLDER OUT. To continue from it, set start = \"FOLDER\" in an "
                     "experiment."},
      .table = Table({"rung", "folder", ">after step", ">validation loss"})};
  for (const Row& row : a.rows)
    if (row.best)
      section.table->rows.push_back(
          {row.name, row.best_state, std::to_string(row.best->step), fixed(row.best->loss, 4)});
  return section;
}

Section sample_section(const Analysis& a) {
  Section section{
      .title = "Samples",
      .lead = "This table shows how each rung's model continues the prompts after training.",
      .paragraphs = {"The model is from the first round, after its last step. Each token is the most "
                     "probable one; ⏎ is a line end."},
      .table = Table({"rung", "prompt", "continuation"})};
  for (const Row& row : a.rows)
    for (const SampledText& sampled : row.sample)
      section.table->rows.push_back({row.name, in_a_line(sampled.prompt), in_a_line(sampled.text)});
  return section;
}
}  // namespace optrush
