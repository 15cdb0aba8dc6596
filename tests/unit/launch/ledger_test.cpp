// The ledger in memory, and what another start reads of it.
#include "launch/ledger/ledger.h"

#include <gmock/gmock.h>

#include "ledger_fixture.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using ::testing::ElementsAre;

class LedgerReplay : public testing::LedgerTest {
 protected:
  /// An experiment with a failed rung, a restart, a rung without a plan, and runs of the gate.
  static Experiment varied() {
    Experiment e = experiment({"a", "crash", "unplanned", "wider"}, 2);
    e.parts[0].rungs[3].settings = {{"train", {{"micro_batch", 8}}}};
    return e;
  }
  Start varied_start() {
    return {.change =
                [](const Job& job, RunResult& result) {
                  if (job.id == "01-a-r2") result.notes = {"a note"};
                  result.costs = {{"total", 1}, {"operators", {1, 2}}, {"phases", {3}}};
                },
            .ends = {{"02-crash-r1", Status::crashed}},
            .unplanned = {"unplanned"}};
  }
  /// All that a start knows: its report, the complete runs, and the faults of each.
  Json known(const fs::path& reports) {
    const Experiment e = varied();
    const Expanded expanded(e);
    RunRequest request = resuming();
    request.reports = reports;
    Ledger ledger(expanded, request);
    ledger.describe(Json::object());
    make_plans(ledger, {"unplanned"});
    return known(ledger);
  }
  static Json known(const Ledger& ledger) {
    Json known = Json::object();
    const Stored stored = ledger.stored();
    for (const StoredRun& run : stored.runs) {
      const Job job{run.id, run.spec};
      known[run.id] = {{"spec", to_json(run.spec)},
                       {"result", to_json(run.result)},
                       {"complete", ledger.is_stored(job)},
                       {"restarts", ledger.restarts(job).size()}};
    }
    known["plans"] = Json::array();
    for (const auto& plan : stored.plans) known["plans"].push_back(to_json(plan));
    return known;
  }
};

TEST_F(LedgerReplay, ReadsWhatTheLedgerHad) {
  const Experiment e = varied();
  course(e, request(), varied_start());
  const Expanded expanded(e);
  const RunRequest again = resuming();
  Json before;
  {
    // A start that makes all runs again knows its results from memory only.
    fs::remove_all(report() / "runs");
    Ledger ledger(expanded, again);
    ledger.describe(Json::object());
    make_plans(ledger, {"unplanned"});
    for (const Job& job : ledger.schedule().all(ledger.plans())) {
      ledger.start(job);
      RunResult result = ok_result(job);
      varied_start().change(job, result);
      if (job.id == "01-a-r1") {
        ledger.restart(job, failed_result(Status::crashed), 7, 5);
        ledger.start(job);
      }
      ledger.finish(job, std::move(result));
    }
    before = known(ledger);
  }
  EXPECT_EQ(before.at("01-a-r1").at("restarts"), 1);
  EXPECT_EQ(known(folder_.path()), before);
}

// A kill cuts the journal anywhere. What is known then follows from its whole lines.
TEST_F(LedgerReplay, CutJournalIsItsWholeLines) {
  course(varied(), request(), varied_start());
  const std::string journal = read_file(report() / "journal.jsonl");
  const auto known_after = [&](size_t bytes) {
    const TemporaryFolder copy;
    fs::copy(report().parent_path(), copy / "fake", fs::copy_options::recursive);
    write_file(copy / "fake/local/journal.jsonl", journal.substr(0, bytes));
    return known(copy.path());
  };
  std::vector<size_t> ends = {0};
  for (size_t i = 0; i < journal.size(); ++i)
    if (journal[i] == '\n') ends.push_back(i + 1);
  ASSERT_GT(ends.size(), 20U);
  size_t complete = 0;
  for (const size_t end : ends) {
    const Json now = known_after(end);
    size_t count = 0;
    for (const auto& [id, run] : now.items()) count += run.is_object() && run.at("complete") == true;
    EXPECT_GE(count + 1, complete) << "after " << end << " bytes: a line only adds knowledge";
    complete = std::max(complete, count);
  }
  EXPECT_GE(complete, 7U);
  const Json whole = known_after(ends[ends.size() - 2]);
  for (size_t bytes = ends[ends.size() - 2]; bytes + 2 < journal.size(); ++bytes)
    ASSERT_EQ(known_after(bytes), whole) << bytes;
}

TEST_F(LedgerReplay, InvalidResultIsNoResult) {
  course(experiment({"a"}, 2), request());
  fs::remove(report() / "journal.jsonl");
  course(experiment({"a"}, 2), resuming());
  write_file(report() / "runs/01-a-r2/result.json", "{");
  EXPECT_THAT(course(experiment({"a"}, 2), resuming()), ::testing::Contains("run 01-a-r2"));
}
}  // namespace
}  // namespace optrush
