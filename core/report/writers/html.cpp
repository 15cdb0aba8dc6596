#include <algorithm>

#include "report/numbers/format.h"
#include "report/writers/writers.h"

namespace optrush {
namespace {
constexpr const char* kPageCss = R"css(
:root{color-scheme:light dark;--text:#1f2328;--muted:#59636e;--line:#d8dee4;--back:#ffffff;--head:#f6f8fa;--lead:#ddf4ff}
@media (prefers-color-scheme: dark){
  :root{--text:#e6edf3;--muted:#9198a1;--line:#30363d;--back:#0d1117;--head:#161b22;--lead:#121d2f}}
body{margin:0 auto;max-width:1440px;padding:24px;background:var(--back);color:var(--text);
  font:15px/1.5 system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif}
h1{margin:0 0 4px}h2{margin:40px 0 12px;padding-bottom:6px;border-bottom:1px solid var(--line)}
.question,.caption{color:var(--muted)}
.finding p,.finding ul{margin:0}.finding ul{padding-left:22px}.finding{margin:16px 0;padding:14px 18px;border-radius:8px;background:var(--lead);font-size:17px}
.warning{padding:10px 18px;border-left:4px solid #c62828}
.wide{overflow-x:auto;margin:12px 0}
table{border-collapse:collapse;font-size:13.5px;font-variant-numeric:tabular-nums}
th,td{padding:6px 12px;border:1px solid var(--line);text-align:left;vertical-align:top;max-width:420px;
  overflow-wrap:break-word}
th{background:var(--head)}td.long{min-width:17em}td.number,th.number{text-align:right}.whole{white-space:nowrap}
tbody tr:hover{background:var(--head)}
li{margin:4px 0;white-space:pre-wrap;overflow-wrap:anywhere}
#vg-tooltip-element.vg-tooltip{background:var(--back);color:var(--text);border-color:var(--line)}
#vg-tooltip-element.vg-tooltip td.key{color:var(--muted)}
.vega-embed summary{opacity:.5!important}
)css";

/// "4.8e-07" is one word, though a browser would break it behind its hyphen.
std::string word_text(const std::string& word) {
  const bool power = word.find("e-") != std::string::npos;
  return power ? "<span class=\"whole\">" + html_text(word) + "</span>" : html_text(word);
}

/// A number stays with its unit; only in front of brackets it may break.
std::string number_text(const std::string& text) {
  std::string html;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(' ', start), text.size());
    const bool bracket = start < text.size() && (text[start] == '(' || text[start] == '[');
    if (start > 0) html += bracket ? " " : "&nbsp;";
    html += word_text(text.substr(start, end - start));
    start = end + 1;
  }
  return html;
}

std::string header_cell(const Table::Column& column) {
  return (column.number ? "<th class=\"number\">" : "<th>") + html_text(column.title) + "</th>";
}

std::string html_cell(const Table::Column& column, const std::string& text) {
  constexpr size_t kLong = 40;
  if (column.number) return "<td class=\"number\">" + number_text(text) + "</td>";
  return (text.size() > kLong ? "<td class=\"long\">" : "<td>") + html_text(text) + "</td>";
}

std::string html_table(const Table& table) {
  std::string text = "<div class=\"wide\"><table><thead><tr>";
  for (const auto& column : table.columns) text += header_cell(column);
  text += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    text += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) text += html_cell(table.columns[i], row[i]);
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

std::string html_section(const Section& section, const std::vector<std::string>& charts) {
  std::string text = "<section>\n";
  if (!section.title.empty()) text += "<h2>" + html_text(section.title) + "</h2>\n";
  for (const auto& paragraph : section.paragraphs) text += "<p>" + html_text(paragraph) + "</p>\n";
  if (std::ranges::find(charts, section.chart) != charts.end())
    text += R"(<div class="wide" id=")" + section.chart + "\"></div>\n<p class=\"caption\">" +
            html_text(section.caption) + "</p>\n";
  if (section.table) text += html_table(*section.table);
  if (!section.bullets.empty()) {
    text += "<ul>\n";
    for (const auto& bullet : section.bullets) text += "<li>" + html_text(bullet) + "</li>\n";
    text += "</ul>\n";
  }
  if (!section.links.empty()) {
    text += "<ul>\n";
    for (const auto& link : section.links)
      text += "<li><a href=\"" + html_text(link.file) + "\">" + html_text(link.text) + "</a></li>\n";
    text += "</ul>\n";
  }
  return text + "</section>\n";
}
}  // namespace

std::string html(const Document& document, const std::vector<std::string>& charts) {
  std::string text =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
      html_text(document.title) + "</title>\n<style>" + kPageCss + "</style>\n</head>\n<body>\n<h1>" +
      html_text(document.title) + "</h1>\n";
  if (!document.question.empty()) text += "<p class=\"question\">" + html_text(document.question) + "</p>\n";
  text += "<div class=\"finding\"><p>" + html_text(document.findings.front()) + "</p>\n";
  if (document.findings.size() > 1) text += "<ul>\n";
  for (size_t i = 1; i < document.findings.size(); ++i)
    text += "<li>" + html_text(document.findings[i]) + "</li>\n";
  text += document.findings.size() > 1 ? "</ul></div>\n" : "</div>\n";
  for (const auto& warning : document.warnings)
    text += "<p class=\"warning\">Warning: " + html_text(warning) + "</p>\n";
  for (const auto& section : document.sections) text += html_section(section, charts);
  return text + (charts.empty() ? "" : kChartsMark) + "</body>\n</html>\n";
}
}  // namespace optrush
