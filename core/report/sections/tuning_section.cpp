#include "base/printable.h"
#include "report/numbers/format.h"
#include "report/sections/document.h"

namespace optrush {
namespace {
/// Joins lines, because a cell has one line.
std::string in_a_line(std::string_view text) {
  std::string line;
  for (const char c : text) line += c == '\n' ? std::string("⏎") : std::string(1, c == '\t' ? ' ' : c);
  return printable(line);
}
}  // namespace

Section best_section(const Analysis& a) {
  Section section{.title = "Best states",
                  .lead = "This table lists the state with the lowest validation loss of each rung."};
  Table table{.columns = {{"rung"}, {"folder"}, {"after step", true}, {"validation loss", true}}};
  for (const Row& row : a.rows)
    if (row.best)
      table.rows.push_back(
          {row.name, row.best_state, std::to_string(row.best->step), fixed(row.best->loss, 4)});
  if (table.rows.empty()) return section;
  section.paragraphs = {
      "The states are those of each rung's first round. To export the weights of a state, run optrush "
      "weights "
      "FOLDER OUT. To continue from it, set start = \"FOLDER\" in an experiment."};
  section.table = std::move(table);
  return section;
}

Section sample_section(const Analysis& a) {
  Section section{.title = "Samples",
                  .lead = "This table shows how each rung's model continues the prompts after training."};
  Table table{.columns = {{"rung"}, {"prompt"}, {"continuation"}}};
  for (const Row& row : a.rows)
    for (const SampledText& sampled : row.sample)
      table.rows.push_back({row.name, in_a_line(sampled.prompt), in_a_line(sampled.text)});
  if (table.rows.empty()) return section;
  section.paragraphs = {
      "The model is that of the first round after its last step. Each token is the most probable one; ⏎ is a "
      "line end."};
  section.table = std::move(table);
  return section;
}
}  // namespace optrush
