#include <algorithm>

#include "report/analysis/analysis.h"

namespace optrush {
namespace {
const Row* row_named(const std::vector<Row>& rows, const std::string& name) {
  const auto it = std::ranges::find(rows, name, &Row::name);
  return it == rows.end() ? nullptr : &*it;
}

Ratio inverse(const Ratio& ratio) {
  Ratio inverse = ratio;
  inverse.value = 1 / ratio.value;
  if (ratio.interval) inverse.interval = Interval{1 / ratio.interval->high, 1 / ratio.interval->low};
  return inverse;
}

/// expand() calls the variants of a rung "without <rung>" and "<rung> alone".
AblationLine ablation_line(const std::string& rung, const std::vector<Row>& rows) {
  AblationLine line{.rung = rung};
  const Row* without = row_named(rows, "without " + rung);
  const Row* alone = row_named(rows, rung + " alone");
  const auto against_full = [&](const Row& row) {
    return row.previous.variant >= 0 && rows[static_cast<size_t>(row.previous.variant)].group == "full";
  };
  if (without && against_full(*without)) {
    if (without->previous.speed) line.in_stack = inverse(*without->previous.speed);
    if (without->previous.memory) line.memory_in_stack = 1 / *without->previous.memory;
    line.differs = without->previous.differs;
  }
  if (alone) {
    line.alone = alone->base.speed;
    line.memory_alone = alone->base.memory;
    if (line.differs.empty()) line.differs = alone->base.differs;
  }
  return line;
}
}  // namespace

std::vector<AblationLine> rank_ablation(const Experiment& experiment, const std::vector<Row>& rows) {
  std::vector<AblationLine> lines;
  for (const Part& part : experiment.parts)
    if (part.arrangement == Arrangement::ablation)
      for (const Rung& rung : part.rungs)
        if (!rung.external) lines.push_back(ablation_line(rung.name, rows));
  std::ranges::stable_sort(lines, std::greater{},
                           [](const AblationLine& line) { return line.in_stack ? line.in_stack->value : 0; });
  return lines;
}
}  // namespace optrush
