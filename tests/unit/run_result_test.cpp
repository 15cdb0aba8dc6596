// The stored result of a run. One declaration reads it, writes it and makes the JSON schema.
#include "results/result_text.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <limits>
#include <sstream>

#include "../support/error_of.h"
#include "base/files.h"
#include "base/temporary_folder.h"
#include "results/context.h"
#include "results/journal.h"
#include "results/worker_answer.h"
#include "schema_file.h"
#include "support/folders.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kReports = testing::tests_folder() + "/fixtures/reports";

TEST(RunResultSchema, TheFileIsMadeFromTheFields) {
  const Json cost = {{"type", "object"},
                     {"description", "null: does not apply to a CPU"},
                     {"required",
                      {"launches", "host_waits", "copies", "copied_bytes", "casts", "cast_bytes",
                       "elementwise_bytes", "matmul_flops", "attention_flops", "noted_flops"}},
                     {"additionalProperties", {{"type", {"integer", "null"}}}}};
  Json schema = fields_of<RunResult>().schema();
  schema["$defs"] = {{"rank", schema["properties"]["ranks"]["items"]},
                     {"collective", schema["properties"]["collectives"]["items"]},
                     {"cost", cost}};
  schema["properties"]["ranks"]["items"] = {{"$ref", "#/$defs/rank"}};
  schema["properties"]["collectives"]["items"] = {{"$ref", "#/$defs/collective"}};
  testing::expect_schema("run_result", "RunResult", schema);
}

TEST(ContextSchema, TheFileIsMadeFromTheFields) {
  testing::expect_schema("context", "Context", fields_of<Context>().schema());
}

/// Empty fields may be missing or null.
void expect_equivalent(const Json& before, const Json& after, const std::string& place) {
  if (before.is_object() && after.is_object()) {
    for (const auto& [key, value] : before.items())
      if (after.contains(key))
        expect_equivalent(value, after.at(key), place + "/" + key);
      else
        EXPECT_TRUE(record::is_nothing(value)) << place << "/" << key << ": " << value;
  } else if (before.is_array() && after.is_array()) {
    ASSERT_EQ(before.size(), after.size()) << place;
    for (size_t i = 0; i < before.size(); ++i)
      expect_equivalent(before[i], after[i], place + "/" + std::to_string(i));
  } else {
    EXPECT_EQ(before, after) << place;
  }
}

/// The lines of every runs.jsonl.
std::vector<Json> stored_runs() {
  std::vector<Json> runs;
  for (const auto& report : fs::directory_iterator(kReports))
    if (report.is_directory())
      std::ranges::move(read_json_lines(report.path() / "runs.jsonl"), std::back_inserter(runs));
  return runs;
}

TEST(RunResultJson, StoredResultsAreKeptCompletely) {
  const std::vector<Json> runs = stored_runs();
  for (const Json& run : runs) {
    const Json& stored = run.at("result");
    expect_equivalent(stored, to_json(run_result_from_json(stored, "a report")), run.at("id"));
  }
  EXPECT_GT(runs.size(), 10U);
}

TEST(RunResultJson, WrittenResultsRoundTrip) {
  for (const Json& run : stored_runs()) {
    const std::string once = to_json(run_result_from_json(run.at("result"), "a report")).dump();
    EXPECT_EQ(to_json(run_result_from_json(parse_json(once, "it"), "it")).dump(), once);
  }
}

TEST(RunResultText, EqualsTheParsedDocument) {
  for (const Json& run : stored_runs())
    for (const int indent : {-1, 2}) {
      const Json document = to_json(run_result_from_json(run.at("result"), "it"));
      const std::string text = run.at("result").dump(indent);
      EXPECT_EQ(to_json(run_result_from_text(text, "it")), document) << run.at("id");
      RunResult brief = run_result_from_json(run.at("result"), "it");
      for (StepResult& step : brief.steps) step.phases = {};
      brief.plan.reset();
      if (brief.costs.is_object()) brief.costs.update({{"phases", nullptr}, {"operators", nullptr}});
      // The document parser reads keys with an escape.
      std::string escaped = text;
      if (const size_t at = text.find("\"steps\""); at != std::string::npos)
        escaped.replace(at, 7, R"("st\u0065ps")");
      for (const std::string& same : {text, escaped})
        EXPECT_EQ(to_json(run_result_from_text(same, "it", ResultParts::of_report())), to_json(brief))
            << run.at("id");
    }
}

TEST(RunResultText, IsAcceptedOrRefusedLikeTheParsedDocument) {
  const auto with_step = [](const std::string& step) {
    return R"({"schema_version":1,"status":"ok","reason":"","steps":[)" + step + "]}";
  };
  const std::string rest = R"("grad_norm":1,"tokens":3,"seconds":0.5,"phases":{"forward":0.25}})";
  size_t read = 0, refused = 0;
  for (const std::string& text :
       {with_step(R"({"step":0,"timed":true,"loss":2,)" + rest),
        with_step(R"({"step":0.0,"timed":true,"loss":2e0,)" + rest),
        with_step(R"({"st\u0065p":0,"timed":true,"loss":2,)" + rest),
        with_step(R"( { "step" : 0 , "timed" : false , "loss" : null , )" + rest + "\n"),
        with_step(R"({"step":0,"timed":true,"loss":2,"learning_rate":null,"positions":null,)" + rest),
        with_step(R"({"step":0,"timed":true,"loss":-0.0,"processed_tokens":2,"positions":7,)" + rest),
        with_step(R"({"step":0,"timed":true,"loss":1e-400,)" + rest),
        with_step(R"({"step":0,"timed":true,"loss":1e400,)" + rest),
        with_step(R"({"step":00,"timed":true,"loss":2,)" + rest),
        with_step(R"({"step":0,"timed":true,"loss":2.,)" + rest),
        with_step(R"({"step":0,"timed":true,"loss":.5,)" + rest),
        with_step(R"({"step":0,"timed":true,"loss":+2,)" + rest),
        with_step(R"({"step":0,"timed":true,"loss":1e,)" + rest),
        with_step(R"({"step":0,"timed":true,"loss":NaN,)" + rest),
        with_step(R"({"step":0,"timed":true,"loss":"2",)" + rest),
        with_step(R"({"step":null,"timed":true,"loss":2,)" + rest),
        with_step(R"({"step":0.5,"timed":true,"loss":2,)" + rest),
        with_step(R"({"step":99999999999999999999,"timed":true,"loss":2,)" + rest),
        with_step(R"({"step":0,"timed":1,"loss":2,)" + rest),
        with_step(R"({"step":0,"loss":2,)" + rest),
        with_step(R"({"step":0,"step":0,"timed":true,"loss":2,)" + rest),
        with_step(R"({"step":0,"timed":true,"loss":2,"extra":1,)" + rest),
        with_step(R"({"step":0,"timed":true,"loss":2,"positions":2,)" + rest),
        with_step(R"({"step":0,"timed":true,"loss":2,"processed_tokens":-4,)" + rest),
        with_step(R"({"step":0,"timed":true,"loss":2,"grad_norm":1,"tokens":3,"seconds":1,"phases":[]})"),
        with_step(
            R"({"step":0,"timed":true,"loss":2,"grad_norm":1,"tokens":3,"seconds":1,"phases":{"a":""}})"),
        with_step(R"({"step":0,"timed":true,"loss":2,)" + rest + ","),
        with_step(","),
        with_step("1"),
        with_step(""),
        with_step("") + "}",
        std::string(R"({"steps":[],"schema_version":1,"steps":[]})"),
        std::string(R"({"schema_version":1,"status":"fine","reason":"","steps":[]})"),
        std::string("[]"),
        std::string("")}) {
    const auto as_text = [&] { return to_json(run_result_from_text(text, "it")).dump(); };
    const auto as_document = [&] {
      return to_json(run_result_from_json(parse_stored(text, "it"), "it")).dump();
    };
    const std::string error = testing::error_of([&] { as_document(); });
    EXPECT_EQ(testing::error_of([&] { as_text(); }), error) << text;
    ++(error.empty() ? read : refused);
    if (error.empty()) {
      EXPECT_EQ(as_text(), as_document()) << text;
    }
  }
  EXPECT_EQ(read, 8U);
  EXPECT_EQ(refused, 27U);
}

TEST(RunResultJson, FailureHasOnlyKnownFields) {
  RunResult lost({Status::crashed, "killed"});
  lost.cause = Cause::lost;
  EXPECT_EQ(to_json(lost).dump(),
            R"({"schema_version":1,"status":"crashed","reason":"killed","code":"crashed","cause":"lost"})");
}

TEST(RunResultJson, AnErrorKeepsItsCodeAndPlace) {
  const Error error(ErrorCode::unknown_name, "no plugin 'lara'", "did you mean 'lora'?", "mine.lua:7");
  const Json json = to_json(RunResult(failed(error, error.what())));
  const RunResult read = run_result_from_json(json, "result.json");
  EXPECT_EQ(json.at("code"), "unknown_name");
  EXPECT_EQ(read.code, ErrorCode::unknown_name);
  EXPECT_EQ(read.where, "mine.lua:7");
  EXPECT_FALSE(to_json(RunResult()).contains("code"));
  EXPECT_EQ(RunResult({Status::oom, "full"}).code, ErrorCode::out_of_memory)
      << "the code follows from the status";
}

/// docs/reference/errors.md has a line `| `code` | meaning | remedy |` for each code, in their order.
TEST(ErrorCodes, PageListsAllCodes) {
  std::vector<std::string> listed;
  const std::string text = read_file(testing::tests_folder() + "/../docs/reference/errors.md");
  std::istringstream page(text.substr(text.find("| code | meaning |")));
  for (std::string line; std::getline(page, line);)
    if (line.starts_with("| `")) listed.push_back(line.substr(3, line.find('`', 3) - 3));
  const auto names = names_of(ErrorCode());
  EXPECT_THAT(listed, ::testing::ElementsAreArray(names.begin(), names.end()));
  EXPECT_EQ(to_string(ErrorCode::internal), "internal")
      << "the last code: the names are in the order of the codes";
}

TEST(RunResultJson, InvalidFieldsAreNamed) {
  const auto error = [](Json changes) {
    Json result = {{"schema_version", 1}, {"status", "ok"}, {"reason", ""}};
    result.update(changes);
    return testing::error_of([&] { run_result_from_json(result, "result.json"); });
  };
  EXPECT_EQ(error(Json::object()), "");
  EXPECT_THAT(error({{"status", "fine"}}), HasSubstr("field 'status' must be one of 'ok'"));
  EXPECT_THAT(error({{"cause", "fate"}}), HasSubstr("field 'cause' must be one of 'own'"));
  EXPECT_THAT(error({{"code", "fate"}}), HasSubstr("field 'code' must be one of"));
  EXPECT_THAT(error({{"schema_version", 2}}), HasSubstr("schema_version 2 is not supported"));
  EXPECT_THAT(error({{"stesp", Json::array()}}), HasSubstr("unknown field 'stesp' of a run's result"));
  EXPECT_THAT(error({{"tokens_per_second", 0}}), HasSubstr("must be above 0"));
  EXPECT_THAT(error({{"steps", {{{"step", 0}}}}}), HasSubstr("field 'timed' is missing in a step"));
  EXPECT_THAT(error({{"mesh", {{{"dim", "dp"}, {"size", 0}}}}}), HasSubstr("of 0 ranks"));
}

TEST(ContextJson, FilesOfOlderAndLaterBuildsAreRead) {
  const Context context = context_from_json({{"date", "2026-01-01T00:00:00Z"},
                                             {"cpu", {{"name", "EPYC"}, {"sockets", 2}}},
                                             {"peak", {{"dtype_flops", {{"fp32", 1e11}, {"fp8", nullptr}}}}},
                                             {"weather", "fair"}},
                                            "context.json");
  EXPECT_EQ(context.cpu.name, "EPYC");
  EXPECT_EQ(context.peak.dtype_flops.size(), 1U);
  EXPECT_TRUE(context.gpus.empty());
  EXPECT_FALSE(context.threads);
  const auto error = [](const Json& json) {
    return testing::error_of([&] { context_from_json(json, "context.json"); });
  };
  EXPECT_THAT(error(Json::array()), HasSubstr("is not a description of a machine"));
  EXPECT_THAT(error({{"date", ""}, {"threads", "two"}}), HasSubstr("field 'threads' must be an integer"));
}

TEST(WorkerAnswer, IsTheAnswerOrTheFailure) {
  const TemporaryFolder folder;
  write_json(folder / "plan.json", {{"problem", Json::object()}});
  EXPECT_FALSE(read_answer(folder / "plan.json").failure);
  EXPECT_TRUE(read_answer(folder / "plan.json").asked.contains("problem"));
  write_failure(folder / "plan.json", {Status::skipped, "no GPU", ErrorCode::unsupported, "a.lua:1"});
  const WorkerAnswer none = read_answer(folder / "plan.json");
  ASSERT_TRUE(none.failure);
  EXPECT_EQ(none.failure->status, Status::skipped);
  EXPECT_EQ(none.failure->reason, "no GPU");
  EXPECT_EQ(none.failure->code, ErrorCode::unsupported);
  EXPECT_EQ(none.failure->where, "a.lua:1");
  EXPECT_TRUE(none.asked.is_null());
}

TEST(JournalEntries, AreReadInAppendedOrder) {
  const TemporaryFolder folder;
  using Event = JournalEntry::Event;
  const auto file = folder / "journal.jsonl";
  Journal(folder.path())
      .append(
          {.event = Event::finished, .run = "a", .status = Status::oom, .code = ErrorCode::out_of_memory});
  append_line(file, R"({"event":"of a later build","run":"b"})");
  write_file(file, read_file(file) + R"({"event":"cut)");
  Journal(folder.path()).append({.event = Event::started, .run = "c", .spec_sha256 = "12"});
  const auto lines = read_json_lines(file);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].at("run"), "a");
  EXPECT_EQ(lines[0].at("status"), "oom");
  EXPECT_EQ(lines[0].at("code"), "out_of_memory");
  EXPECT_TRUE(lines[0].contains("time"));
  EXPECT_EQ(lines[2].at("event"), "started");
  EXPECT_EQ(Journal(folder.path()).of("c").spec, "12");
}

RunResult result_with_norms(const std::vector<double>& norms) {
  RunResult result;
  for (const double norm : norms)
    result.steps.push_back(
        {.step = std::ssize(result.steps), .timed = !result.steps.empty(), .loss = 2, .grad_norm = norm});
  return result;
}

/// A loss scale that grows skips an update now and then.
TEST(Unhealthy, SkippedUpdatesEndNothing) {
  constexpr double kSkipped = std::numeric_limits<double>::quiet_NaN();
  for (const auto& norms :
       {std::vector<double>{1, 1, 1}, {1, 1, kSkipped}, {kSkipped, kSkipped, 1}, {1, kSkipped, kSkipped, 3}})
    for (const TrainedBy by : {TrainedBy::worker, TrainedBy::other_program})
      EXPECT_EQ(unhealthy(result_with_norms(norms), by), "");
  EXPECT_THAT(unhealthy(result_with_norms({1, kSkipped, kSkipped}), TrainedBy::worker),
              HasSubstr("in every timed step"));
  EXPECT_THAT(unhealthy(result_with_norms({1, kSkipped, kSkipped}), TrainedBy::other_program),
              HasSubstr("in every timed step"));
  EXPECT_EQ(unhealthy(result_with_norms({kSkipped, kSkipped}), TrainedBy::other_program), "")
      << "it reports no norms";
  EXPECT_THAT(unhealthy(result_with_norms({kSkipped, kSkipped}), TrainedBy::worker),
              HasSubstr("in every timed step"));
  EXPECT_THAT(unhealthy(result_with_norms({1, 0, 1}), TrainedBy::worker),
              HasSubstr("the gradient norm is zero at step 1"));
  RunResult diverged = result_with_norms({1, 1, 1});
  diverged.steps[2].loss = kSkipped;
  EXPECT_THAT(unhealthy(diverged, TrainedBy::worker), HasSubstr("the loss is not finite at step 2"));
}
}  // namespace
}  // namespace optrush
