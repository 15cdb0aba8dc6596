#include <algorithm>

#include "analysis/numbers/format.h"
#include "base/number_text.h"
#include "report/writers/writers.h"

namespace optrush {
namespace {
constexpr const char* kPageCss = R"css(
:root{color-scheme:light dark;--text:#1f2328;--muted:#59636e;--line:#d8dee4;--back:#ffffff;--head:#f6f8fa;
  --lead:#ddf4ff;--faster:#2a78c2;--slower:#c94f00;--open:#8b949e;--bad:#c62828}
@media (prefers-color-scheme: dark){
  :root{--text:#e6edf3;--muted:#9198a1;--line:#30363d;--back:#0d1117;--head:#161b22;--lead:#121d2f;
  --faster:#58a6e8;--slower:#f0883e;--bad:#ff7b72}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1640px;padding:24px;background:var(--back);color:var(--text);
  font:15px/1.5 system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;overflow-wrap:break-word}
h1{margin:0;font-size:26px}h2{display:inline;margin:0;font-size:17px}
.question,.caption,.byline,.lead{color:var(--muted)}.question{margin:2px 0 0}.caption,.byline{font-size:13px}
.headline{margin:16px 0;padding:14px 18px;border-radius:8px;background:var(--lead);font-size:19px;line-height:1.45}
p,ul,summary{max-width:1080px}
.warning{padding:10px 18px;border-left:4px solid var(--bad)}
.wide{overflow-x:auto;margin:12px 0}
body>details{border-top:1px solid var(--line);padding:10px 0}
summary{cursor:pointer}h2+.lead{margin-left:8px}
table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums}
th,td{padding:6px 12px;border-bottom:1px solid var(--line);text-align:left;vertical-align:top;max-width:420px}
th,.wide th:first-child{background:var(--head);white-space:nowrap}th.number{cursor:pointer}
th[aria-sort=ascending]::after{content:" ▲"}th[aria-sort=descending]::after{content:" ▼"}
td.long{min-width:17em}td.number,th.number{text-align:right}.whole,.top td{white-space:nowrap}
.top td:last-child{white-space:normal}
svg.bar{display:inline-block;vertical-align:-3px;margin-left:8px}
svg.bar rect{fill:var(--open)}svg.bar .faster{fill:var(--faster)}svg.bar .slower{fill:var(--slower)}
svg.bar line{stroke:var(--line)}svg.bar .one{stroke:var(--muted)}
tbody tr:hover{background:var(--head)}
.wide td:first-child,.wide th:first-child{position:sticky;left:0;min-width:min(11em,30vw);max-width:38vw;white-space:normal}
.wide td:first-child{background:var(--back)}
ul{padding-left:22px}li{margin:4px 0;white-space:pre-wrap;overflow-wrap:anywhere}
.notes{color:var(--muted);font-size:13px}
.wide.vega-embed{display:block;width:fit-content;max-width:100%;padding-right:38px}.vega-embed svg.marks{max-width:100%;height:auto}
#vg-tooltip-element.vg-tooltip{background:var(--back);color:var(--text);border-color:var(--line)}
#vg-tooltip-element.vg-tooltip td.key{color:var(--muted)}
.vega-embed summary{opacity:.5!important}
@media (max-width:640px){body{padding:14px}h1{font-size:22px}.headline{font-size:17px;padding:12px}
  th,td{padding:5px 8px}h2+.lead{display:block;margin-left:16px}
  .top,.top tbody{display:block;width:100%}.top thead{display:none}.top tr{display:block;padding:6px 0;
  border-bottom:1px solid var(--line)}.top td{display:flex;justify-content:space-between;gap:12px;border:0;padding:2px 0;
  white-space:normal}.top td:first-child{position:static;max-width:none;font-weight:600}.top td:first-child::before{content:none!important}.top td::before{
  content:attr(data-title);color:var(--muted);font-weight:normal;white-space:nowrap}.top svg.bar{display:none}}
@media print{body{padding:0}.wide{overflow:visible}table{font-size:9px}th,td{padding:2px 4px;max-width:220px}
  tr{break-inside:avoid}.vega-embed summary{display:none}}
)css";

/// A click on a column of numbers sorts by the first number of each cell, in its unit. A print opens all.
constexpr const char* kPageScript = R"js(
const units={ns:1e-9,µs:1e-6,ms:1e-3,s:1,min:60,h:3600,KiB:1024,MiB:1048576,GiB:1073741824,TiB:1099511627776,
  KFLOP:1e3,MFLOP:1e6,GFLOP:1e9,TFLOP:1e12,PFLOP:1e15};
function size(cell){
  const found=/([-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?)x?\s*([^\s\d\[(\/]*)/.exec(cell.textContent);
  return found?parseFloat(found[1].replaceAll(',',''))*(units[found[2]]||1):-Infinity;
}
for(const head of document.querySelectorAll('th.number'))head.addEventListener('click',()=>{
  const body=head.closest('table').tBodies[0],down=head.getAttribute('aria-sort')!=='descending';
  for(const other of head.parentNode.children)other.removeAttribute('aria-sort');
  head.setAttribute('aria-sort',down?'descending':'ascending');
  const at=head.cellIndex,rows=[...body.rows];
  rows.sort((a,b)=>(size(a.cells[at])-size(b.cells[at]))*(down?-1:1));
  body.append(...rows);
});
const folded=[];
addEventListener('beforeprint',()=>{
  for(const part of document.querySelectorAll('body>details:not([open])')){part.open=true;folded.push(part);}
});
addEventListener('afterprint',()=>{for(const part of folded.splice(0))part.open=false;});
)js";

/// Keeps "4.8e-07" together, which a browser would break at the hyphen.
std::string word_text(const std::string& word) {
  const bool power = word.find("e-") != std::string::npos;
  return power ? "<span class=\"whole\">" + html_text(word) + "</span>" : html_text(word);
}

/// Keeps a number and its unit together; a line may break only in front of brackets.
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

/// A sentence in which a number and its percent sign stay together.
std::string prose_text(const std::string& text) {
  std::string html = html_text(text);
  for (size_t at = 0; (at = html.find(" %", at)) != std::string::npos;) html.replace(at, 1, "&nbsp;");
  return html;
}

std::string header_cell(const Table::Column& column) {
  return (column.number ? "<th class=\"number\">" : "<th>") + html_text(column.title) + "</th>";
}

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
  for (const auto& column : table.columns) text += header_cell(column);
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

std::string html_list(const std::vector<std::string>& items, const char* of_class = "") {
  if (items.empty()) return "";
  std::string text = std::string("<ul") + of_class + ">\n";
  for (const auto& item : items) text += "<li>" + prose_text(item) + "</li>\n";
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
  text += html_list(section.bullets, section.table && !section.table->bars.empty() ? " class=\"notes\"" : "");
  if (!section.links.empty()) {
    text += "<ul>\n";
    for (const auto& link : section.links)
      text += "<li><a href=\"" + html_text(link.file) + "\">" + html_text(link.text) + "</a></li>\n";
    text += "</ul>\n";
  }
  return text;
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
      html_text(document.title) + "</title>\n<style>" + kPageCss + "</style>\n</head>\n<body>\n<h1>" +
      html_text(document.title) + "</h1>\n";
  if (!document.question.empty()) text += "<p class=\"question\">" + html_text(document.question) + "</p>\n";
  if (!document.byline.empty()) text += "<p class=\"byline\">" + html_text(document.byline) + "</p>\n";
  text += "<p class=\"headline\">" + prose_text(document.headline) + "</p>\n";
  for (const auto& warning : document.warnings)
    text += "<p class=\"warning\">Warning: " + html_text(warning) + "</p>\n";
  text += html_body(document.top, charts);
  for (const auto& section : document.sections) text += html_section(section, charts);
  return text + "<script>" + kPageScript + "</script>\n" + (charts.empty() ? "" : kChartsMark) +
         "</body>\n</html>\n";
}
}  // namespace optrush
