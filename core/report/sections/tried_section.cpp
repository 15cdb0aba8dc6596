#include "base/counted.h"
#include "base/suggest.h"
#include "report/sections/document.h"

namespace optrush {
Section tried_section(const Analysis& a) {
  Section section;
  if (!a.tried.is_object()) return section;
  section.title = "What was tried";
  int64_t stacks = 0;
  section.table = Table{{{"stage", true}, {"reference"}, {"change"}, {"tokens/s vs reference"}}, {}};
  for (const Json& stage : a.tried.at("stages")) {
    const auto number = std::to_string(1 + static_cast<size_t>(&stage - &a.tried.at("stages").front()));
    for (const Json& stack : stage.at("stacks")) {
      section.table->rows.push_back({number, stage.at("reference"), stack.at("change"), stack.at("result")});
      if (!stack.at("speed").is_null()) ++stacks;
    }
  }
  section.lead =
      ("The search ran " + counted(static_cast<int64_t>(stacks), "stack") + " in " +
       counted(std::ssize(a.tried.at("stages")), "stage") + "; each stage has its own report in tried/. " +
       (a.tried.at("finished").get<bool>()
            ? "No further move is shown to be faster."
            : "The time ended before every move from the last stack was tried, so a faster one may remain."));
  return section;
}
}  // namespace optrush
