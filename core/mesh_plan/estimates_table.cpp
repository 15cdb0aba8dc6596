#include "mesh_plan/estimates_table.h"

#include "report/format.h"

namespace optrush {
std::string estimates_text(const std::vector<Estimate>& estimates, const Hardware& hardware, TableForm form) {
  Table table{{{"rung"},
               {"mesh"},
               {"sharding"},
               {"phases of"},
               {"a rank sends in a step"},
               {"counted", true},
               {"step, estimated", true},
               {"measured", true},
               {"error", true}},
              {}};
  for (const Estimate& e : estimates)
    table.rows.push_back({e.rung, mesh_text(e.planned.mix), sharding_text(e.planned.mix), e.from,
                          sends_text(e.planned.cost), or_unknown(e.sent, bytes), duration(e.estimated()),
                          duration(e.measured), change(1 + e.error())});
  return heading(
             "Steps of several ranks, estimated from one device's phases and the link on " + hardware.name,
             form) +
         drawn(table, form);
}

Json estimates_json(const std::vector<Estimate>& estimates, const Hardware& hardware) {
  Json rows = Json::array();
  for (const Estimate& e : estimates)
    rows.push_back({{"rung", e.rung},
                    {"phases_of", e.from},
                    {"planned", planned_json(e.planned)},
                    {"estimated_sent_bytes", e.estimated_sent()},
                    {"counted_sent_bytes", e.sent ? Json(*e.sent) : Json()},
                    {"estimated_seconds", e.estimated()},
                    {"measured_seconds", e.measured},
                    {"error", e.error()}});
  return {{"schema_version", 1}, {"hardware", hardware.name}, {"estimates", rows}};
}
}  // namespace optrush
