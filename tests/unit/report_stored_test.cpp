#include "base/temporary_folder.h"
#include "results/stored.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "analysis/analysis.h"
#include "base/files.h"
#include "optrush/error.h"
#include "report/claims/claims.h"
#include "report_fixture.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using test::three_rungs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Stored, ErrorsNameTheFile) {
  const auto message_after = [](auto&& damage) {
    const TemporaryFolder folder;
    three_rungs().write(folder.path());
    damage(folder.path());
    try {
      load_report(folder.path());
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  const auto change_result = [](const fs::path& folder, auto&& change) {
    const fs::path file = folder / "runs/01-one-r1/result.json";
    Json json = read_json(file);
    change(json);
    write_json(file, json);
  };
  EXPECT_EQ(message_after([](const fs::path&) {}), "no error");
  EXPECT_THAT(message_after([](const fs::path& f) { fs::remove(f / "experiment.json"); }),
              HasSubstr("not a report folder"));
  EXPECT_THAT(message_after([](const fs::path& f) { write_file(f / "variants.json", "[]"); }),
              HasSubstr("variants.json"));
  EXPECT_THAT(message_after([](const fs::path& f) { write_file(f / "plans.json", "[null]"); }),
              HasSubstr("plans.json"));
  EXPECT_THAT(message_after([](const fs::path& f) { write_file(f / "runs/01-one-r1/result.json", "{"); }),
              HasSubstr("01-one-r1/result.json"));
  EXPECT_THAT(
      message_after([&](const fs::path& f) { change_result(f, [](Json& j) { j["stauts"] = "ok"; }); }),
      HasSubstr("stauts"));
  EXPECT_THAT(
      message_after([&](const fs::path& f) { change_result(f, [](Json& j) { j["status"] = "okay"; }); }),
      HasSubstr("field 'status' must be one of 'ok'"));
  EXPECT_THAT(
      message_after([&](const fs::path& f) { change_result(f, [](Json& j) { j["schema_version"] = 2; }); }),
      HasSubstr("schema_version 2"));
  EXPECT_THAT(
      message_after([&](const fs::path& f) { change_result(f, [](Json& j) { j.erase("schema_version"); }); }),
      AllOf(HasSubstr("field 'schema_version' is missing"), Not(HasSubstr("json.exception"))));
  EXPECT_THAT(message_after([&](const fs::path& f) {
                change_result(f, [](Json& j) { j["steps"][0]["tokens"] = "many"; });
              }),
              HasSubstr("field 'tokens' must be an integer"));
  EXPECT_THAT(message_after([&](const fs::path& f) {
                change_result(f, [](Json& j) { j["steps"][0].erase("tokens"); });
              }),
              HasSubstr("tokens"));
  EXPECT_THAT(message_after([&](const fs::path& f) {
                change_result(f, [](Json& j) { j["memory"]["peak_allocated"] = "1 GiB"; });
              }),
              HasSubstr("peak_allocated"));
}

TEST(Stored, MissingFilesAreNoError) {
  const TemporaryFolder folder;
  three_rungs().write(folder.path());
  for (const char* part : {"plans.json", "context.json", "runs/02-two-r1/result.json"})
    fs::remove(folder.path() / part);
  const Stored stored = load_report(folder.path());
  EXPECT_EQ(stored.runs.size(), 11U);
  EXPECT_TRUE(stored.plans[2]) << "the run results have the plan as well";
  fs::remove_all(folder.path() / "runs");
  const Analysis a = analyze(load_report(folder.path()));
  EXPECT_EQ(finding_text(a), "Nothing was measured.");
  EXPECT_EQ(a.rows.size(), 4U);
}
}  // namespace
}  // namespace optrush
