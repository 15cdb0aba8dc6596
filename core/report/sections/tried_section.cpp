#include "base/text.h"
#include "report/sections/document.h"

namespace optrush {
Section tried_section(const Analysis& a) {
  Section section;
  if (!a.tried) return section;
  section.title = "What was tried";
  int64_t stacks = 0;
  section.table = Table({">stage", "reference", "change", "tokens/s vs reference"});
  const std::vector<TriedStage>& stages = a.tried->stages;
  for (size_t i = 0; i < stages.size(); ++i)
    for (const TriedStack& each : stages[i].stacks) {
      section.table->rows.push_back({std::to_string(i + 1), stages[i].reference, each.change, each.result});
      if (each.speed) ++stacks;
    }
  section.lead =
      ("The search ran " + counted(stacks, "stack") + " in " + counted(std::ssize(stages), "stage") +
       "; each stage has its own report in tried/. " +
       (a.tried->finished
            ? "No further move is shown to be faster."
            : "The time ended before every move from the last stack was tried, so a faster one may remain."));
  return section;
}
}  // namespace optrush
