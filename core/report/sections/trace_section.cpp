#include <filesystem>

#include "report/sections/document.h"

namespace optrush {
namespace {
/// ", rank 1" for "runs/01-two-ranks-r1/ranks/1/trace.json".
std::string rank_of(const std::string& file) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  return folder.parent_path().filename() == "ranks" ? ", rank " + folder.filename().string() : "";
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
}  // namespace optrush
