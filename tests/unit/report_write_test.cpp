// The files of a report, with and without the package that draws charts.
#include <gmock/gmock.h>

#include <cstdlib>
#include <set>

#include "../support/error_of.h"
#include "base/files.h"
#include "base/temporary_folder.h"
#include "machine/python.h"
#include "optrush/error.h"
#include "report/report.h"
#include "report/writers/writers.h"
#include "report_fixture.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

std::set<std::string> files_of(const fs::path& folder) {
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file()) files.insert(entry.path().filename());
  return files;
}

const std::set<std::string> kStored = {"experiment.json", "variants.json", "plans.json", "context.json"};
const std::set<std::string> kTables = {"report.md",    "report.html",  "results.csv",
                                       "results.json", "summary.json", "summary.txt"};
const std::set<std::string> kCharts = {"speed.svg", "memory.svg", "loss.svg", "phases.svg", "throughput.svg"};

std::set<std::string> union_of(std::set<std::string> a, std::set<std::string> b,
                               std::set<std::string> c = {}) {
  a.merge(b);
  a.merge(c);
  return a;
}

class ReportFiles : public ::testing::Test {
 protected:
  void SetUp() override { test::long_ladder().write(folder_.path()); }
  std::string text(const std::string& file) const { return read_file(folder_.path() / file); }
  TemporaryFolder folder_;
};

TEST_F(ReportFiles, MissingPythonGivesTablesOnly) {
  setenv("OPTRUSH_PYTHON", "/bin/false", 1);
  const std::string warning = write_report(folder_.path()).warning;
  unsetenv("OPTRUSH_PYTHON");
  EXPECT_THAT(warning, HasSubstr("tables only"));
  EXPECT_EQ(files_of(folder_.path()), union_of(kStored, kTables));
  EXPECT_THAT(text("report.md"), Not(HasSubstr(".svg")));
  EXPECT_THAT(text("report.html"), Not(HasSubstr("vegaEmbed")));
  EXPECT_THAT(text("report.html"), HasSubstr("2,064"));
}

/// The warning when a report is written with a Python that cannot draw charts.
std::string warning_with(const fs::path& python, const fs::path& folder) {
  setenv("OPTRUSH_PYTHON", python.c_str(), 1);
  std::string warning = write_report(folder).warning;
  unsetenv("OPTRUSH_PYTHON");
  EXPECT_EQ(files_of(folder), union_of(kStored, kTables)) << python;
  EXPECT_THAT(read_file(folder / "report.html"), Not(HasSubstr("vegaEmbed"))) << python;
  return warning;
}

TEST_F(ReportFiles, NameTheErrorOfABrokenPython) {
  const TemporaryFolder elsewhere;
  const fs::path python = elsewhere.path() / "python";
  EXPECT_THAT(warning_with(python, folder_.path()), HasSubstr("cannot start '" + python.string() + "'"));
  write_file(python, "#!/bin/sh\necho Traceback\necho 'ModuleNotFoundError: no such module'\nexit 1\n");
  fs::permissions(python, fs::perms::owner_all);
  EXPECT_THAT(warning_with(python, folder_.path()),
              EndsWith("no charts: " + python.string() + ": ModuleNotFoundError: no such module"));
  write_file(python, "#!/bin/sh\nkill -SEGV $$\n");
  fs::permissions(python, fs::perms::owner_all);
  EXPECT_THAT(warning_with(python, folder_.path()), EndsWith("no charts: the drawing did not end"));
}

TEST_F(ReportFiles, NameTheErrorOfAChart) {
  const fs::path python = find_python_tools().path;
  if (python.empty()) GTEST_SKIP() << "there is no Python environment";
  const TemporaryFolder packages;
  write_file(packages.path() / "vl_convert.py", R"py(
def vegalite_to_svg(spec):
    if "title" in spec:
        raise ValueError("an unknown mark")
)py");
  setenv("PYTHONPATH", packages.path().c_str(), 1);
  EXPECT_THAT(warning_with(python, folder_.path()), EndsWith(": ValueError: an unknown mark"));
  unsetenv("PYTHONPATH");
}

TEST(ChartProcess, LeavesNothingWithoutAReport) {
  const TemporaryFolder folder;
  EXPECT_THROW(write_report(folder.path()), Error);
  EXPECT_TRUE(files_of(folder.path()).empty());
  EXPECT_THROW(write_report(folder.path() / "missing"), Error);
  EXPECT_FALSE(fs::exists(folder.path() / "missing"));
}

TEST_F(ReportFiles, HaveChartsInBothThemes) {
  if (find_python_tools().vl_convert.empty()) GTEST_SKIP() << "vl-convert-python is not installed";
  ASSERT_EQ(write_report(folder_.path(), {.png = true}).warning, "");
  EXPECT_EQ(files_of(folder_.path()),
            union_of(union_of(kStored, kTables, kCharts),
                     {"speed.png", "memory.png", "loss.png", "phases.png", "throughput.png"}));
  for (const auto& chart : kCharts) {
    EXPECT_THAT(text("report.md"), HasSubstr("(" + chart + ")"));
    EXPECT_THAT(text(chart), HasSubstr("prefers-color-scheme: dark"));
  }
  EXPECT_THAT(text("speed.svg"), HasSubstr("2.07x"));
  EXPECT_THAT(text("speed.svg"), HasSubstr("out of memory"));
  const std::string page = text("report.html");
  EXPECT_THAT(page, HasSubstr("window.vegaEmbed"));
  for (const char* outside : {"src=\"http", "<link", "import("})
    EXPECT_THAT(page, Not(HasSubstr(outside))) << "the page is self-contained";
}

TEST(GridChart, IsDrawnIfALineHasTwoPoints) {
  if (find_python_tools().vl_convert.empty()) GTEST_SKIP() << "vl-convert-python is not installed";
  const TemporaryFolder folder;
  test::grid().write(folder.path());
  ASSERT_EQ(write_report(folder.path(), {.png = true}).warning, "");
  const std::string drawing = read_file(folder.path() / "grid.svg");
  for (const char* text :
       {"train.seq_len", "peak memory", "tokens/s", "plain", "flash", "1,024", "GiB", "512 MiB"})
    EXPECT_NE(drawing.find(text), std::string::npos) << text;
}

TEST(ScalingChart, HasALineForEachSeriesAndTheIdeal) {
  if (find_python_tools().vl_convert.empty()) GTEST_SKIP() << "vl-convert-python is not installed";
  const TemporaryFolder folder;
  test::scaling().write(folder.path());
  ASSERT_EQ(write_report(folder.path(), {.png = true}).warning, "");
  const std::string drawing = read_file(folder.path() / "scaling.svg");
  for (const char* text : {"ranks", "speedup in tokens/s", "spread, weak", "spread, strong", "shard, weak",
                           "stroke-dasharray", "88 % at 4 ranks"})
    EXPECT_NE(drawing.find(text), std::string::npos) << text;
}

TEST_F(ReportFiles, AreEqualWhenWrittenAgain) {
  setenv("OPTRUSH_PYTHON", "/bin/false", 1);
  write_report(folder_.path());
  std::string before;
  for (const auto& file : kTables) before += text(file);
  write_report(folder_.path());
  unsetenv("OPTRUSH_PYTHON");
  std::string after;
  for (const auto& file : kTables) after += text(file);
  EXPECT_EQ(before, after);
}

// A report can be written again from the files that tools/publish_report.py keeps.
TEST(PublishedReport, EqualsTheOriginalReport) {
  setenv("OPTRUSH_PYTHON", "/bin/false", 1);
  for (const auto& report : {test::long_ladder(), test::validated(), test::scaling(), test::grid()}) {
    const TemporaryFolder whole, kept;
    report.write(whole.path());
    for (const auto& entry : fs::recursive_directory_iterator(whole.path()))
      if (entry.path().filename() == "trace.json") fs::remove(entry.path());  // traces are not kept
    write_report(whole.path());
    for (const std::string& file : kStored)
      if (fs::exists(whole.path() / file)) fs::copy_file(whole.path() / file, kept.path() / file);
    write_file(kept.path() / "runs.jsonl", test::packed(whole.path(), load_report(whole.path()).runs));
    write_report(kept.path());
    for (const auto& file : kTables)
      EXPECT_EQ(read_file(kept.path() / file), read_file(whole.path() / file))
          << report.experiment.name << " " << file;
  }
  unsetenv("OPTRUSH_PYTHON");
}

TEST(PublishedReport, AnInvalidLineIsRefused) {
  const TemporaryFolder folder;
  test::short_ladder().write(folder.path());
  const std::string runs = test::packed(folder.path(), load_report(folder.path()).runs);
  fs::remove_all(folder.path() / "runs");
  const auto error_with = [&](const std::string& line) {
    write_file(folder.path() / "runs.jsonl", runs + line + "\n");
    return testing::error_of([&] { load_report(folder.path()); });
  };
  const std::string place = "runs.jsonl:" + std::to_string(std::ranges::count(runs, '\n') + 1);
  Json run = Json::parse(runs.substr(0, runs.find('\n')));
  EXPECT_EQ(error_with(run.dump()), "");
  EXPECT_THAT(error_with("{"), HasSubstr(place));
  EXPECT_THAT(error_with("[]"), HasSubstr(place));
  EXPECT_THAT(error_with(R"({"id":"a"})"), AllOf(HasSubstr("'id', 'spec' and 'result'"), HasSubstr(place)));
  run["result"]["steps"][0].erase("tokens");
  EXPECT_THAT(error_with(run.dump()), AllOf(HasSubstr("tokens"), HasSubstr(place)));
  run["spec"]["variant"] = 9;
  run["result"].erase("steps");
  EXPECT_THAT(error_with(run.dump()), HasSubstr("variant 9 is not in variants.json"));
}

TEST(ResultsJson, HasNoCopyOfTheRuns) {
  const TemporaryFolder folder;
  const auto bytes_with = [&](int64_t steps) {
    auto report = test::short_ladder();
    report.experiment.base.train.steps = steps;
    report.write(folder.path());
    const Analysis analysis = analyze(load_report(folder.path()));
    write_results(folder / "results.json", analysis);
    const Json results = read_json(folder / "results.json");
    EXPECT_EQ(results.at("runs").size(), analysis.runs.size());
    for (const Json& run : results.at("runs"))
      EXPECT_TRUE(fs::exists(folder / "runs" / run.get<std::string>() / "result.json"));
    return fs::file_size(folder / "results.json");
  };
  const auto few = static_cast<double>(bytes_with(100)), many = static_cast<double>(bytes_with(200));
  EXPECT_LT(many - few, 0.01 * few) << "the size does not depend on the steps";
}

TEST(ResultsJson, HasNoRoundsForARungOfEqualWork) {
  const TemporaryFolder folder;
  test::SyntheticReport report("rates", 3);
  report.ladder({test::setting("lr", {{"train", {{"lr", 1e-2}}}}), test::rung("two", "flash_attention")});
  for (const char* name : {"lr", "two"}) report[name] = {.tokens_per_second = 1020, .scatter = 0.05};
  write_results(folder / "results.json", test::analysis_of(report));
  const Json rows = read_json(folder / "results.json").at("rows");
  const auto speed = [&](int row) { return rows.at(row).at("vs_previous").at("speed"); };
  EXPECT_EQ(speed(1).at("verdict"), "undecided");
  EXPECT_TRUE(speed(1).at("more_rounds").is_null()) << "seeds = 3 compares its losses";
  EXPECT_EQ(speed(2).at("verdict"), "undecided");
  EXPECT_TRUE(speed(2).at("more_rounds").is_number());
}

TEST(ResultsJson, AloneIsNoReport) {
  const TemporaryFolder folder;
  test::short_ladder().write(folder.path());
  write_results(folder / "results.json", analyze(load_report(folder.path())));
  fs::remove(folder.path() / "experiment.json");
  EXPECT_THAT(testing::error_of([&] { load_report(folder.path()); }),
              AllOf(HasSubstr("experiment.json is missing"), HasSubstr("render it with that version")));
}
}  // namespace
}  // namespace optrush
