#include "base/printable.h"
#include "report/writers/text_table.h"
#include "report/writers/writers.h"

namespace optrush {
namespace {
std::string text_section(const Section& section) {
  std::string text;
  for (const auto& paragraph : section.paragraphs) text += printable(paragraph) + "\n";
  if (section.table) text += (text.empty() ? "" : "\n") + text_table(*section.table);
  for (const auto& bullet : section.bullets) text += printable(bullet) + "\n";
  return text;
}
}  // namespace

std::string text(const Document& document) {
  std::string text = printable(document.headline) + "\n\n" + text_section(document.top);
  for (const auto& section : document.sections) {
    text +=
        "\n" + printable(section.title) + (section.lead.empty() ? "" : ": " + printable(section.lead)) + "\n";
    text += text_section(section);
  }
  return text;
}
}  // namespace optrush
