// Runs that --resume makes again, and restarts after a fault.
#include <gmock/gmock.h>

#include "../../support/opens.h"
#include "fixture.h"
#include "launch/controller.h"
#include "launch/folder.h"
#include "launch/ledger/resume.h"
#include "launch/machine.h"
#include "results/stored.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

class Resume : public testing::Launch {
 protected:
  /// Moves the stored runs that are none of this experiment to replaced/. Returns them by the reason.
  std::map<std::string, std::vector<std::string>> unrelated(Experiment e, int64_t rounds,
                                                            const Continues& continues) const {
    e.rounds = rounds;
    const Expanded expanded(e);
    std::map<std::string, std::vector<std::string>> unrelated;
    for (const fs::path& run : folders_in(report() / "runs"))
      if (const auto why = why_unrelated(run, expanded.variants, e, continues); !why.empty()) {
        unrelated[why].push_back(run.filename());
        archive_run(run);
      }
    return unrelated;
  }
};

TEST_F(Resume, CompleteReportRunsNothing) {
  run(experiment({"a", "crash"}, 2));
  const std::string before = read_file(report() / "runs/01-a-r1/result.json");
  EXPECT_FALSE(run(experiment({"a", "crash"}, 2), resuming()).all_ok)
      << "a failed result still counts as failed";
  EXPECT_THAT(starts(), IsEmpty());
  EXPECT_EQ(read_file(report() / "runs/01-a-r1/result.json"), before);
}

TEST_F(Resume, NotesThatThereIsNoReport) {
  std::vector<std::string> notes;
  begun_report(report(), experiment({"a"}), /*resume=*/true, notes);
  EXPECT_THAT(notes,
              ElementsAre("there is no report in '" + report().string() + "' to resume, so all runs begin"));
  run(experiment({"a"}), resuming());
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "01-a-r1", "00-base-drift"));
  begun_report(report(), experiment({"a"}), /*resume=*/true, notes);
  EXPECT_EQ(notes.size(), 1U) << "now there is one";
}

TEST_F(Resume, RunsOnlyMissingRuns) {
  run(experiment({"a", "b"}, 2));
  fs::remove(report() / "runs/01-a-r2/result.json");
  fs::remove_all(report() / "runs/02-b-r1");
  run(experiment({"a", "b"}, 2), resuming());
  EXPECT_THAT(starts(), ElementsAre("02-b-r1", "01-a-r2"));
}

TEST_F(Resume, AddsRounds) {
  run(experiment({"a"}, 1));
  run(experiment({"a"}, 2), resuming());
  EXPECT_THAT(starts(), ElementsAre("00-base-r2", "01-a-r2", "00-base-drift"));
}

TEST_F(Resume, RunsChangedSpecsAgain) {
  auto e = experiment({"a", "b"});
  run(e);
  e.parts[0].rungs[1].settings = {{"train", {{"lr", 0.5}}}};
  run(e, resuming());
  EXPECT_THAT(starts(), ElementsAre("02-b-r1"));
  EXPECT_TRUE(fs::exists(report() / "replaced/02-b-r1/result.json"));
}

TEST_F(Resume, NamesTheFieldsThatChanged) {
  const auto moved = [&](const Experiment& e, int64_t rounds) {
    return unrelated(e, rounds, [](const Variant&) { return false; });
  };
  auto e = experiment({"a", "b"}, 2);
  e.parts[0].rungs[1].settings = {{"train", {{"micro_batch", 2}}}};
  run(e);
  EXPECT_THAT(moved(e, 2), IsEmpty());
  e.parts[0].rungs[1].settings = {{"train", {{"micro_batch", 8}}}};
  EXPECT_THAT(moved(e, 2),
              ElementsAre(Pair("train.micro_batch from 2 to 8", ElementsAre("02-b-r1", "02-b-r2"))));
  e.base.train.lr = 0.01;
  EXPECT_THAT(
      moved(e, 2),
      ElementsAre(Pair("train.lr from 0.0003 to 0.01",
                       ElementsAre("00-base-drift", "00-base-r1", "00-base-r2", "01-a-r1", "01-a-r2"))));
}

TEST_F(Resume, NamesRunsThatAreNotPartOfTheExperiment) {
  run(experiment({"a"}, 2));
  const auto found = unrelated(experiment({"renamed"}, 2), 2, [](const Variant&) { return true; });
  EXPECT_THAT(found.at("the experiment has no such run"), ElementsAre("01-a-r1", "01-a-r2"));
}

// A rank was lost, and the run has a state from which it continues on fewer ranks.
TEST_F(Resume, KeepsRunsThatContinue) {
  auto e = experiment({"a"});
  run(e);
  e.base.train.lr = 0.01;
  std::vector<std::string> asked;
  const auto found = unrelated(e, 1, [&](const Variant& variant) {
    asked.push_back(variant.name);
    return variant.index == 1;
  });
  EXPECT_THAT(found, ElementsAre(Pair(HasSubstr("train.lr"), ElementsAre("00-base-drift", "00-base-r1"))));
  EXPECT_THAT(asked, ElementsAre("base", "a"));
}

TEST_F(Resume, MachinesOfAJobMayBeFewerButNotOthers) {
  const auto job = [](const std::vector<HostContext>& hosts, int gpus) {
    Context context;
    context.hosts = hosts;
    GpuInfo gpu;
    gpu.name = "H100";
    context.gpus.assign(static_cast<size_t>(gpus), gpu);
    return context;
  };
  const HostContext one{"node1", {0, 1}, "Xeon", "2 x H100"}, two{"node2", {2, 3}, "Xeon", "2 x H100"};
  const HostContext larger{"node3", {0, 1, 2, 3}, "Xeon", "4 x H100"}, plain{"node4", {0}, "Xeon", ""};
  EXPECT_EQ(difference_of_machines(job({one, two}, 2), job({one}, 2)), "");
  EXPECT_EQ(difference_of_machines(job({one, two}, 2), job({larger}, 4)), "");
  EXPECT_EQ(difference_of_machines(job({one}, 2), job({one, two}, 2)), "") << "more machines of the kind";
  EXPECT_EQ(difference_of_machines(job({one, plain}, 2), job({two}, 2)), "") << "the other kind is lost";
  EXPECT_EQ(difference_of_machines(job({one}, 2), job({one, {"node5", {2}, "Xeon", "2 x H200"}}, 2)),
            "machines 'Xeon with H100' there, 'Xeon with H100; Xeon with H200' here");
  EXPECT_EQ(difference_of_machines(job({one}, 2), job({}, 0)), "GPUs 'H100' there, 'none' here");
}

TEST_F(Resume, SetsAsideRunsThatLeftTheExperiment) {
  run(experiment({"a", "b"}, 2));
  run(experiment({"renamed"}, 2), resuming());
  EXPECT_THAT(starts(), ElementsAre("01-renamed-r1", "01-renamed-r2"));
  EXPECT_EQ(load_report(report()).runs.size(), 5);
}

// Their runs would not count any more.
TEST_F(Resume, RefusesFewerRounds) {
  run(experiment({"a"}, 3));
  const std::string why = error_of([&] { run(experiment({"a"}, 2), resuming()); });
  EXPECT_THAT(why, HasSubstr("has 3 rounds, and this run asks for 2 in all"));
  EXPECT_THAT(why, HasSubstr("ask for 3 or more (--rounds, or seeds)"));
  EXPECT_EQ(load_report(report()).runs.size(), 7) << "nothing was set aside";
  run(experiment({"a"}, 3), resuming());
  EXPECT_THAT(starts(), IsEmpty());
}

TEST_F(Resume, RungWithAChangedPluginIsRunAgain) {
  write_file(folder_ / "plugin.so", "one");
  setenv("FAKE_PLUGIN", (folder_ / "plugin.so").c_str(), 1);
  const auto e = experiment({"plugin", "other"});
  run(e);
  run(e, resuming());
  EXPECT_THAT(starts(), IsEmpty());
  write_file(folder_ / "plugin.so", "two");
  run(e, resuming());
  EXPECT_THAT(starts(), ElementsAre("01-plugin-r1"));
}

TEST_F(Resume, ReadsPluginsAndResultsOnce) {
  fs::create_directory(folder_ / "plugins");
  write_file(folder_ / "plugins/plugin.so", "one");
  setenv("FAKE_PLUGIN", (folder_ / "plugins/plugin.so").c_str(), 1);
  const auto e = experiment({"plugin"}, 3);
  run(e);
  testing::Opens plugins(folder_ / "plugins"), results(report() / "runs/01-plugin-r2");
  run(e, resuming());
  EXPECT_THAT(starts(), IsEmpty());
  EXPECT_EQ(plugins.of("plugin.so"), 1);
  EXPECT_EQ(results.of("result.json"), 1);
}

TEST_F(Resume, RunsWithChangedDataAreRunAgain) {
  write_file(folder_ / "text.txt", "one");
  auto e = experiment({"a", "b"});
  e.base =
      merged(e.base, {{"data", {{"kind", "text"}, {"path", (folder_ / "text.txt").string()}}}}, "fixture");
  RunRequest only = request();
  only.only = {"a"};
  run(e, only);
  run(e, resuming());
  EXPECT_THAT(starts(), ElementsAre("02-b-r1"));
  write_file(folder_ / "text.txt", "another text");
  run(e, resuming());
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "01-a-r1", "02-b-r1", "00-base-drift"));
}

TEST_F(Resume, KeepsRunsThatCannotBePlannedNow) {
  const fs::path checkpoint = folder_ / "model.safetensors";
  setenv("FAKE_CHECKPOINT", checkpoint.c_str(), 1);
  write_file(checkpoint, "weights");
  run(experiment({"checkpoint", "b"}, 2));
  fs::remove(checkpoint);
  EXPECT_FALSE(run(experiment({"checkpoint", "b"}, 3), resuming()).all_ok);
  EXPECT_THAT(starts(), ElementsAre("00-base-r3", "02-b-r3", "00-base-drift"));
  const Analysis a = analyze(load_report(report()));
  EXPECT_EQ(a.rows.at(1).status, Status::ok) << a.rows.at(1).reason;
  EXPECT_EQ(a.rows.at(1).rounds.size(), 2U);
  EXPECT_EQ(a.missing_runs, 1U);
  write_file(checkpoint, "weights");
  EXPECT_TRUE(run(experiment({"checkpoint", "b"}, 3), resuming()).all_ok);
  EXPECT_THAT(starts(), ElementsAre("01-checkpoint-r3"));
}

TEST_F(Resume, OnlyWithResumeKeepsThePlansOfTheOthers) {
  run(experiment({"a", "b"}));
  const Json before = read_json(report() / "plans.json");
  ASSERT_TRUE(before.at(2).is_object());
  RunRequest only = resuming();
  only.only = {"a"};
  run(experiment({"a", "b"}, 2), only);
  EXPECT_EQ(read_json(report() / "plans.json"), before);
  Experiment changed = experiment({"a", "b"}, 2);
  changed.parts[0].rungs[1].settings = {{"train", {{"lr", 0.5}}}};
  run(changed, only);
  EXPECT_TRUE(read_json(report() / "plans.json").at(2).is_null())
      << "the plan of the old settings is dropped";
}

TEST_F(Resume, RunsOfTwoBuildsGiveAWarning) {
  run(experiment({"a"}));
  const fs::path file = report() / "context.json";
  Json context = read_json(file);
  context["commit"] = "of-yesterday";
  Journal(report()).write("context.json", context);
  run(experiment({"a", "b"}), resuming());
  run(experiment({"a", "b"}), resuming());
  const Json warnings = read_json(file).at("warnings");
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings.at(0).get<std::string>(), HasSubstr("different builds of optrush"));
  EXPECT_THAT(warnings.at(0).get<std::string>(), HasSubstr("of-yesterday"));
}

TEST_F(Resume, KeepsTheNumberOfThreads) {
  run(experiment({"a"}));
  setenv("FAKE_THREADS", "1", 1);
  EXPECT_THAT(error_of([&] { run(experiment({"b"}), resuming()); }),
              HasSubstr("CPU threads '2' there, '1' here"));
  unsetenv("FAKE_THREADS");
}

TEST_F(Resume, KeepsTheArguments) {
  auto e = experiment({"a"});
  e.arguments = {{"layers", 4}};
  run(e);
  e.arguments = {{"layers", 4}, {"new", true}};
  run(e, resuming());
  EXPECT_THAT(starts(), IsEmpty()) << "a new argument is allowed";
  e.arguments["layers"] = 8;
  EXPECT_THAT(error_of([&] { run(e, resuming()); }), HasSubstr("started with layers = 4, not 8"));
  EXPECT_EQ(load_report(report()).experiment.arguments.at("layers"), 4);
}

TEST_F(Resume, RefusesAnotherMachine) {
  run(experiment({"a"}));
  setenv("FAKE_CPU", "another", 1);
  EXPECT_THAT(error_of([&] { run(experiment({"b"}), resuming()); }),
              HasSubstr("CPU 'fake' there, 'another' here"));
  EXPECT_EQ(load_report(report()).variants.at(1).name, "a") << "a refused resume changes nothing";
}

TEST_F(Resume, ChangedMachineDescriptionIsMadeAgain) {
  run(experiment({"a"}));
  const fs::path context = report() / "context.json";
  std::string content = read_file(context);
  content.replace(content.find("\"fake\""), 6, "\"fame\"");
  write_file(context, content);
  EXPECT_THAT(error_of([&] { load_report(report()); }),
              AllOf(HasSubstr("context.json"), HasSubstr("changed after it was written")));
  run(experiment({"a"}), resuming());
  EXPECT_THAT(starts(), IsEmpty());
  EXPECT_EQ(load_report(report()).context.at("cpu").at("name"), "fake");
}

// Reports refuse changed files. A resume repeats a changed run of a later round before it reads its files.
TEST_F(Resume, ChangedRunsOfAnyRoundAreMadeAgain) {
  const auto e = experiment({"a"}, 3);
  run(e);
  for (const std::string file : {"01-a-r1/result.json", "01-a-r3/result.json", "01-a-r3/spec.json"}) {
    const fs::path changed = report() / "runs" / file;
    write_file(changed, read_file(changed) + " ");
    EXPECT_THAT(error_of([&] { load_report(report()); }), HasSubstr(file));
    run(e, resuming());
    EXPECT_THAT(starts(), ElementsAre(fs::path(file).parent_path().string())) << file;
    EXPECT_EQ(load_report(report()).runs.size(), 7U) << file;
  }
}

TEST_F(Resume, TornLineOfTheJournalIsSkipped) {
  run(experiment({"a"}));
  const fs::path journal = report() / "journal.jsonl";
  const std::string whole = read_file(journal);
  // The journal is cut in the line about the start of 01-a-r1.
  const size_t start = whole.find("01-a-r1");
  write_file(journal, whole.substr(0, start + 3));
  run(experiment({"a"}), resuming());
  EXPECT_THAT(starts(), ElementsAre("01-a-r1", "00-base-drift"));
  run(experiment({"a"}), resuming());
  EXPECT_THAT(starts(), IsEmpty()) << "the line after the torn one was not read";
}

class Restarts : public testing::Launch {
 protected:
  static Experiment saving(const std::vector<std::string>& rungs, int64_t rounds = 1) {
    Experiment e = experiment(rungs, rounds);
    e.max_restarts = 2;
    e.base.save.every = 5;
    return e;
  }
};

TEST_F(Restarts, FaultsRestartARunUntilTheLimit) {
  EXPECT_FALSE(run(saving({"crash", "exit3", "good"})).all_ok);
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "01-crash-r1", "01-crash-r1", "01-crash-r1", "02-exit3-r1",
                                    "02-exit3-r1", "02-exit3-r1", "03-good-r1"));
  EXPECT_EQ(status("01-crash-r1"), "crashed");
  EXPECT_EQ(events("restarted"),
            (std::vector<std::string>{"01-crash-r1", "01-crash-r1", "02-exit3-r1", "02-exit3-r1"}));
  EXPECT_THAT(result("01-crash-r1").at("notes"),
              Contains(AllOf(HasSubstr("started again 2 times"), HasSubstr("made 2 steps again"))))
      << "each run had made one step";
  EXPECT_EQ(analyze(load_report(report())).missing_runs, 0) << "the result has the checksum from the journal";
}

TEST_F(Restarts, ReportedFailuresDoNotRestartARun) {
  run(saving({"failed", "oom", "skip"}));
  EXPECT_EQ(starts().size(), 4);
  EXPECT_THAT(events("restarted"), IsEmpty());
}

TEST_F(Restarts, OnlyRunsThatSaveStartAgain) {
  run(saving({"crash@2"}, 2));
  EXPECT_THAT(events("restarted"), IsEmpty()) << "later rounds save no state";
  EXPECT_EQ(status("01-crash-2-r2"), "crashed");
}
}  // namespace
}  // namespace optrush
