#include "report/numbers/format.h"
#include "report/numbers/statistics.h"
#include "report/sections/document.h"

namespace optrush {
Section state_section(const Analysis& a) {
  Section section{.title = "Saved states", .lead = "The last saved state of each rung."};
  Table table{.columns = {{"rung"}, {"folder"}, {"next step", true}, {"size", true}, {"saved in", true}}};
  for (const Row& row : a.rows) {
    if (row.saved.empty()) continue;
    std::vector<double> seconds;
    for (const SavedPoint& point : row.saved) seconds.push_back(point.seconds);
    const SavedPoint& last = row.saved.back();
    table.rows.push_back(
        {row.name, row.state, std::to_string(last.step), bytes(last.bytes), duration(*median(seconds))});
  }
  if (table.rows.empty()) return section;
  section.paragraphs = {
      "The last state of each rung's first round, saved between steps. Saving is not counted in step time. "
      "Another experiment goes on from it by start = \"FOLDER\"; optrush weights FOLDER OUT writes its "
      "weights "
      "for other programs. The time is the median over all that the run has saved."};
  section.table = std::move(table);
  return section;
}
}  // namespace optrush
