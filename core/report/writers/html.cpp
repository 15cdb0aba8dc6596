#include <algorithm>

#include "analysis/numbers/format.h"
#include "base/files.h"
#include "base/number_text.h"
#include "base/text.h"
#include "machine/installation.h"
#include "report/writers/writers.h"

namespace optrush {
namespace {
/// A file of scripts/report. page.js sorts a table by a clicked column of numbers, by the first number of
/// each cell in its unit, and opens all sections for a print.
std::string page_part(const char* name) {
  return read_file(Installation::of_this_program().scripts / "report" / name);
}

/// Keeps "4.8e-07" together, which a browser would break at the hyphen.
std::string word_text(const std::string& word) {
  const bool power = word.find("e-") != std::string::npos;
  return power ? "<span class=\"whole\">" + html_text(word) + "</span>" : html_text(word);
}

/// Keeps a number and its unit together; a line may break only in front of brackets.
std::string number_text(const std::string& text) {
  std::string html;
  const auto words = split(text, " ");
  for (size_t i = 0; i < words.size(); ++i) {
    const bool bracket = words[i].starts_with('(') || words[i].starts_with('[');
    if (i > 0) html += bracket ? " " : "&nbsp;";
    html += word_text(words[i]);
  }
  return html;
}

/// A sentence in which a number and its percent sign stay together.
std::string prose_text(const std::string& text) { return filled_in(html_text(text), {{" %", "&nbsp;%"}}); }

/// `bar` follows the text of a number. A narrow screen shows `title` beside the cell in place of the head.
std::string html_cell(const Table::Column& column, const std::string& text, const std::string& bar,
                      bool titled) {
  constexpr size_t kLong = 40;
  const std::string title = titled ? " data-title=\"" + html_text(column.title) + "\"" : "";
  if (column.number) return "<td class=\"number\"" + title + ">" + number_text(text) + bar + "</td>";
  return (text.size() > kLong && !titled ? "<td class=\"long\">" : "<td" + title + ">") + html_text(text) +
         "</td>";
}

/// The interval as SVG, with lines at the ends of the axis and at 1.00.
std::string html_bar(const Bars& bars, size_t row) {
  const auto bar = bars.place(row);
  constexpr double kWidth = 96, kLeast = 3;
  // same width as the others
  if (!bar) return bars.axis() ? R"(<svg class="bar" width="96" height="14"></svg>)" : "";
  const double left = bar->low * kWidth;
  const double wide = std::max(kLeast, (bar->high - bar->low) * kWidth);
  const auto at = [](double x) { return fixed(x, 1); };
  return R"(<svg class="bar" width="96" height="14" aria-hidden="true"><line x1="0" x2="96" y1="7" y2="7"/>)" +
         std::string(R"(<line class="one" y1="0" y2="14" x1=")") + at(bar->one * kWidth) + R"(" x2=")" +
         at(bar->one * kWidth) + R"("/><rect y="3" height="8" rx="1" class=")" +
         (bar->side > 0   ? "faster"
          : bar->side < 0 ? "slower"
                          : "open") +
         R"(" x=")" + at(std::min(left, kWidth - kLeast)) + R"(" width=")" + at(wide) + R"("/></svg>)";
}

std::string html_table(const Table& table) {
  std::string text = std::string("<div class=\"wide\"><table") +
                     (!table.bars.empty() ? " class=\"top\"" : "") + "><thead><tr>";
  for (const auto& column : table.columns)
    text += (column.number ? "<th class=\"number\">" : "<th>") + html_text(column.title) + "</th>";
  text += "</tr></thead>\n<tbody>\n";
  for (size_t row = 0; row < table.rows.size(); ++row) {
    text += "<tr>";
    for (size_t i = 0; i < table.columns.size(); ++i) {
      std::string bar;
      for (const Bars& bars : table.bars)
        if (bars.column == i) bar = html_bar(bars, row);
      text += html_cell(table.columns[i], table.rows[row][i], bar, !table.bars.empty());
    }
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

template <class Item>
std::string html_list(const std::vector<Item>& items, auto html_of, const char* of_class = "") {
  if (items.empty()) return "";
  std::string text = std::string("<ul") + of_class + ">\n";
  for (const auto& item : items) text += "<li>" + html_of(item) + "</li>\n";
  return text + "</ul>\n";
}

/// The content of a section below its title.
std::string html_body(const Section& section, const std::vector<std::string>& charts) {
  std::string text;
  for (const auto& paragraph : section.paragraphs) text += "<p>" + prose_text(paragraph) + "</p>\n";
  if (std::ranges::find(charts, section.chart) != charts.end())
    text += R"(<div class="wide" id=")" + section.chart + "\"></div>\n" +
            (section.caption.empty() ? "" : "<p class=\"caption\">" + html_text(section.caption) + "</p>\n");
  if (section.table) text += html_table(*section.table);
  text += html_list(section.bullets, prose_text,
                    section.table && !section.table->bars.empty() ? " class=\"notes\"" : "");
  return text + html_list(section.links, [](const Section::Link& link) {
           return "<a href=\"" + html_text(link.file) + "\">" + html_text(link.text) + "</a>";
         });
}

std::string html_section(const Section& section, const std::vector<std::string>& charts) {
  return std::string("<details") + (section.open ? " open" : "") + "><summary><h2>" +
         html_text(section.title) + "</h2> <span class=\"lead\">" + html_text(section.lead) +
         "</span></summary>\n" + html_body(section, charts) + "</details>\n";
}
}  // namespace

std::string html(const Document& document, const std::vector<std::string>& charts) {
  std::string text =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
      html_text(document.title) + "</title>\n<style>\n" + page_part("page.css") +
      "</style>\n</head>\n<body>\n<h1>" + html_text(document.title) + "</h1>\n";
  if (!document.question.empty()) text += "<p class=\"question\">" + html_text(document.question) + "</p>\n";
  if (!document.byline.empty()) text += "<p class=\"byline\">" + html_text(document.byline) + "</p>\n";
  text += "<p class=\"headline\">" + prose_text(document.headline) + "</p>\n";
  for (const auto& warning : document.warnings)
    text += "<p class=\"warning\">Warning: " + html_text(warning) + "</p>\n";
  text += html_body(document.top, charts);
  for (const auto& section : document.sections) text += html_section(section, charts);
  return text + "<script>\n" + page_part("page.js") + "</script>\n" + (charts.empty() ? "" : kChartsMark) +
         "</body>\n</html>\n";
}
}  // namespace optrush
