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

// A report can be written again from the files that are kept beside it.
TEST(ReportOfResults, EqualsTheOriginalReport) {
  setenv("OPTRUSH_PYTHON", "/bin/false", 1);
  for (const auto& report : {test::long_ladder(), test::validated(), test::scaling(), test::grid()}) {
    const TemporaryFolder whole, kept;
    report.write(whole.path());
    for (const auto& entry : fs::recursive_directory_iterator(whole.path()))
      if (entry.path().filename() == "trace.json") fs::remove(entry.path());  // traces are not kept
    write_report(whole.path());
    fs::copy_file(whole.path() / "results.json", kept.path() / "results.json");
    write_report(kept.path());
    for (const auto& file : kTables)
      EXPECT_EQ(read_file(kept.path() / file), read_file(whole.path() / file))
          << report.experiment.name << " " << file;
  }
  unsetenv("OPTRUSH_PYTHON");
}

TEST(ReportOfResults, ResultsHaveOneLinePerRun) {
  const TemporaryFolder folder;
  test::short_ladder().write(folder.path());
  write_results(folder / "results.json", analyze(load_report(folder.path())));
  const std::string text = read_file(folder / "results.json");
  const Json results = Json::parse(text);
  size_t lines = 0;
  for (size_t at = 0; (at = text.find("\n {\"id\":", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, results.at("runs").size());
  for (const Json& run : results.at("runs"))
    EXPECT_EQ(run.at("result"), read_json(folder / "runs" / run.at("id").get<std::string>() / "result.json"));
  // results.json can be written again from itself, also after a change of its formatting.
  const TemporaryFolder kept;
  write_file(kept / "results.json", results.dump(3));
  write_results(kept / "results.json", analyze(load_report(kept.path())));
  EXPECT_EQ(read_file(kept / "results.json"), text);
}

TEST(ReportOfResults, ResultsOfAnEarlierVersionAreRefused) {
  const TemporaryFolder folder;
  test::short_ladder().write(folder.path());
  write_results(folder / "results.json", analyze(load_report(folder.path())));
  Json results = read_json(folder / "results.json");
  const TemporaryFolder kept;
  results.erase("variants");
  write_json(kept.path() / "results.json", results);
  EXPECT_THAT(testing::error_of([&] { load_report(kept.path()); }),
              AllOf(HasSubstr("field 'variants' is missing"), HasSubstr("results.json")));
}
}  // namespace
}  // namespace optrush
