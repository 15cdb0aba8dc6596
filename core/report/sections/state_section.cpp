#include "report/numbers/format.h"
#include "report/numbers/statistics.h"
#include "report/sections/document.h"

namespace optrush {
Section state_section(const Analysis& a) {
  Section section{.title = "Saved states", .lead = "This table lists the last saved state of each rung."};
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
  section.bullets = {"The states are those of each rung's first round. Step times do not include saving.",
                     "To continue from a state, set start = \"FOLDER\" in an experiment.",
                     "To export its weights, run optrush weights FOLDER OUT.",
                     "\"Saved in\" is the median time of all saves of the run."};
  section.table = std::move(table);
  return section;
}
}  // namespace optrush
