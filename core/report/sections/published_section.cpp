#include "analysis/numbers/format.h"
#include "base/text.h"
#include "report/sections/document.h"

namespace optrush {
namespace {
/// "1.75x", with the published device if it differs from this one.
std::string published_cell(double value, const std::string& shown, const Row& row) {
  if (value == 0) return kUnknown;
  return row.published_here ? shown : "(" + shown + ")";
}
}  // namespace

Section published_section(const Analysis& a) {
  Section section{.title = "Beside published figures",
                  .lead = "This table compares speed and memory as measured here with published figures.",
                  .paragraphs = {"Speed is tokens/s relative to the rung below. Memory is the change of peak "
                                 "memory from the rung below."},
                  .table = Table({"rung", ">speed, measured", ">published", ">memory, measured", ">published",
                                  "on", "by"})};
  bool elsewhere = false;
  std::vector<std::string> others;
  for (const Row& row : a.rows) {
    if (!row.published) continue;
    const Published& published = *row.published;
    elsewhere = elsewhere || !row.published_here;
    // A comparison that includes the change of another rung is not the published one.
    const Comparison unknown;
    const Comparison& measured = row.previous.between.empty() ? row.previous : unknown;
    const bool differs = measured.speed && !measured.differs.empty();
    if (differs) others.push_back(name_in_text(row.name) + " (" + measured.differs + ")");
    section.table->rows.push_back({row.name, or_unknown(measured.speed, ratio_text) + (differs ? " †" : ""),
                                   published_cell(published.speedup, grouped(published.speedup) + "x", row),
                                   or_unknown(measured.memory, [](double m) { return change(m); }),
                                   published_cell(published.memory, change(published.memory), row),
                                   published.on, published.source});
  }
  if (elsewhere)
    section.bullets = {
        "Figures in brackets were published for another device, so this machine need not reach them."};
  if (!others.empty()) section.bullets.push_back("† Not like for like: " + join(others) + ".");
  return section;
}
}  // namespace optrush
