// A report's folder, read as in `optrush report` and `optrush compare`. The input has its files in one
// document:
// {"experiment", "variants", "plans", "context", "tried", "noise": [lines], "runs": [{"spec", "result"}]}.
#include "report/report.h"

#include "analysis/compare.h"
#include "report/sections/document.h"
#include "report/writers/writers.h"
#include "results/stored.h"
#include "target.h"

namespace {
using namespace optrush;
namespace fs = std::filesystem;

void add_file(const fuzz::Files& files, const Json& input, const std::string& name) {
  if (const auto it = input.find(name); it != input.end())
    files.write(name + ".json", it->dump(-1, ' ', true, Json::error_handler_t::replace));
  else
    fs::remove(files / (name + ".json"));
}

void add_report_files(const fuzz::Files& files, const Json& input) {
  constexpr size_t kMaxRuns = 8;
  for (const char* name : {"experiment", "variants", "plans", "context", "tried"})
    add_file(files, input, name);
  std::string noise;
  if (const auto it = input.find("noise"); it != input.end())
    for (const Json& line : *it) noise += line.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
  files.write("noise.jsonl", noise);
  fs::remove_all(files / "runs");
  const Json runs = input.value("runs", Json::array());
  for (size_t i = 0; i < std::min(runs.is_array() ? runs.size() : 0, kMaxRuns); ++i) {
    const std::string run = "runs/" + std::to_string(i) + "/";
    fs::create_directories(files / run);
    if (!runs[i].is_object()) continue;
    for (const char* name : {"spec", "result"})
      if (const auto it = runs[i].find(name); it != runs[i].end())
        files.write(run + name + ".json", it->dump(-1, ' ', true, Json::error_handler_t::replace));
  }
}
}  // namespace

FUZZ_TARGET(report) {
  static const fuzz::Files files;
  const Json input = Json::parse(fuzz::text_of(data, size), nullptr, false);
  if (!input.is_object()) return -1;
  add_report_files(files, input);
  fuzz::feed([&] {
    const Analysis analysis = analyze(load_report(files.path()));
    fuzz::hold(analysis.rows.size() == analysis.variants.size(), "every variant has a row");
    const Document document = make_document(analysis);
    std::vector<std::string> charts;
    for (const Chart& chart : charts_of(analysis)) charts.push_back(chart.name);
    fuzz::hold(!csv(analysis).empty() && !markdown(document, {}).empty() && !html(document, charts).empty(),
               "a report has something to say");
    write_results("/dev/null", analysis);
    fuzz::hold(!ladder_table(analysis).empty(), "a report has its figures");
    const ComparedReports with_itself = compare_reports({files.path(), files.path()}, add_answer);
    fuzz::hold(with_itself.facts.empty(), "a report differs from itself in nothing");
    const Document comparison = comparison_document(with_itself);
    fuzz::hold(
        !text(comparison).empty() && !markdown(comparison, {}).empty() && !html(comparison, {}).empty(),
        "a comparison has something to say");
    comparison_json(with_itself);
  });
  return 0;
}
