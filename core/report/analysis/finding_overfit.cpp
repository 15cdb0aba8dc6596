#include <algorithm>

#include "base/text.h"
#include "report/analysis/finding_parts.h"
#include "report/numbers/format.h"

namespace optrush {
void add_overfit(const Analysis& a, Sentences& parts) {
  Rows rows, failed;  // a row that did not learn the batch has not ended well
  for (const Row& row : a.rows)
    if (row.overfit && row.same_as < 0) (row.overfit->learned() ? rows : failed).push_back(&row);
  if (rows.empty() && failed.empty()) return;
  const auto last = [](const Row* row) { return row->overfit->last; };
  const auto loss = [](const Row& row) { return fixed(row.overfit->last, 4); };
  const std::string required =
      "below " + exact_number((rows.empty() ? failed : rows).front()->overfit->required);
  if (failed.empty() && rows.size() == 1)
    parts.push_back(name_in_text(rows.front()->name) + " learns one batch: its last loss is " +
                    loss(*rows.front()) + " (required: " + required + ")");
  else if (failed.empty())
    parts.push_back("all " + std::to_string(rows.size()) +
                    " stacks learn one batch: their last losses are at most " +
                    loss(**std::ranges::max_element(rows, {}, last)) + " (required: " + required + ")");
  else
    parts.push_back(std::to_string(failed.size()) + " of " +
                    counted(std::ssize(rows) + std::ssize(failed), "stack") +
                    (failed.size() == 1 ? " does" : " do") + " not learn one batch (required: a last loss " +
                    required + "): " + names_text(failed, [&](const Row& row) {
                      return name_in_text(row.name) + " (" + loss(row) + ")";
                    }));
}
}  // namespace optrush
