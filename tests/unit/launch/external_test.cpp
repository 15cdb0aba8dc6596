// External rungs: the input of the program, and the result for each way that it ends.
#include <gmock/gmock.h>

#include "fixture.h"
#include "launch/schedule/needs.h"
#include "report/claims/claims.h"
#include "support/folders.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ExternalRung : public testing::Launch {
 protected:
  static Rung program(const std::string& end) {
    Rung rung{.name = end, .where = "fake.lua:1"};
    rung.external = External{.command = {kProgram, end}};
    return rung;
  }
  /// The base, then one rung for each way to end.
  static Experiment programs(const std::vector<std::string>& ends, int64_t rounds = 1) {
    Experiment e = experiment({}, rounds);
    e.parts.emplace_back();
    for (const auto& end : ends) e.parts[0].rungs.push_back(program(end));
    return e;
  }
  Json given(const std::string& id) const { return read_json(report() / "runs" / id / "given.json"); }
  Analysis analysis() const { return analyze(load_report(report())); }

  static inline const std::string kProgram =
      fs::path(testing::tests_folder()) / "unit/launch/fake_program.py";
};

TEST_F(ExternalRung, ALongLastLineIsCutAtACharacter) {
  EXPECT_FALSE(run(programs({"long_line"})).all_ok);
  EXPECT_THAT(reason("01-long-line-r1"), HasSubstr(": " + std::string(199, 'x') + "\uFFFD...\n"));
}

TEST_F(ExternalRung, EveryEndBecomesAStatus) {
  Experiment e = programs({"write", "print", "pretty", "silent", "junk", "odd", "rateless", "lossless",
                           "wrong", "skip", "crash", "exit3", "hang"});
  e.parts[0].rungs.back().settings = {{"timeout_s", 1}};
  EXPECT_FALSE(run(e).all_ok);
  EXPECT_EQ(status("01-write-r1"), "ok");
  EXPECT_EQ(status("02-print-r1"), "ok");
  EXPECT_EQ(status("03-pretty-r1"), "ok");
  EXPECT_EQ(status("04-silent-r1"), "crashed");
  EXPECT_THAT(reason("04-silent-r1"), HasSubstr("the command wrote no result"));
  EXPECT_EQ(status("05-junk-r1"), "crashed");
  EXPECT_THAT(reason("05-junk-r1"), HasSubstr("not valid JSON"));
  EXPECT_EQ(status("06-odd-r1"), "crashed");
  EXPECT_THAT(reason("06-odd-r1"), HasSubstr("unknown field 'splendid'"));
  EXPECT_EQ(status("07-rateless-r1"), "ok") << "it follows from the steps";
  EXPECT_DOUBLE_EQ(result("07-rateless-r1").at("tokens_per_second"), 6400);
  EXPECT_EQ(status("08-lossless-r1"), "ok");
  EXPECT_EQ(status("09-wrong-r1"), "ok") << "the report applies the gate";
  EXPECT_EQ(status("10-skip-r1"), "skipped");
  EXPECT_EQ(reason("10-skip-r1"), "no such framework");
  EXPECT_EQ(status("11-crash-r1"), "crashed");
  EXPECT_THAT(reason("11-crash-r1"), HasSubstr("SIGSEGV"));
  EXPECT_THAT(reason("11-crash-r1"), HasSubstr("the last words"));
  EXPECT_EQ(status("12-exit3-r1"), "crashed");
  EXPECT_THAT(reason("12-exit3-r1"),
              HasSubstr("ended with exit code 3, before its first message: no ?[1mscript\nlast lines of"));
  EXPECT_EQ(status("13-hang-r1"), "timeout");

  const Analysis a = analysis();
  EXPECT_TRUE(a.rows[1].ok()) << a.rows[1].reason;
  EXPECT_TRUE(a.rows[1].verdict.compared);
  EXPECT_DOUBLE_EQ(a.rows[1].previous.speed->value, 0.5);
  EXPECT_TRUE(a.rows[8].ok() && !a.rows[8].checked);
  EXPECT_THAT(a.rows[8].notes, ElementsAre("not checked: the program reports no losses"));
  EXPECT_EQ(a.rows[9].status, Status::broken);
  ASSERT_EQ(a.programs.size(), 5U) << "a broken program is left out";
  EXPECT_EQ(a.programs[0].fastest, 0);
  EXPECT_DOUBLE_EQ(a.programs[0].comparison.speed->value, 2);
}

TEST_F(ExternalRung, RemovedFolderEndsOnlyItsRun) {
  EXPECT_FALSE(run(programs({"removes", "write"})).all_ok);
  EXPECT_EQ(status("01-removes-r1"), "crashed");
  EXPECT_EQ(status("02-write-r1"), "ok");
  EXPECT_EQ(analysis().rows[1].status, Status::crashed) << "the report is still readable";
}

TEST_F(ExternalRung, RunsInTheSameRounds) {
  Experiment e = experiment({"a"}, 3);
  e.parts[0].rungs.push_back(program("write"));
  e.parts[0].rungs.push_back({.name = "b", .where = "fake.lua:2"});
  EXPECT_TRUE(run(e).all_ok);
  EXPECT_EQ(status("02-write-r3"), "ok");
  const Analysis a = analysis();
  EXPECT_EQ(a.rows[3].previous.name, "a");
  EXPECT_EQ(a.rows[2].previous.name, "a");
  EXPECT_EQ(a.rows[2].samples.size(), 3U);
  EXPECT_THAT(finding_text(a), HasSubstr("as fast as write"));
}

TEST_F(ExternalRung, ReceivesSpecOutMetricsAndItsSettings) {
  Experiment e = programs({"write"});
  External& external = *e.parts[0].rungs[0].external;
  external.command.insert(external.command.end(),
                          {"--spec={spec}", "{out}", "{metrics}", "{worker}", "--ranks={world_size}"});
  external.folder = folder_.path();
  e.parts[0].rungs[0].settings = {{"threads", 3},
                                  {"env", {{"FAKE_MODE", "fast"}, {"OMP_WAIT_POLICY", "active"}}}};
  EXPECT_TRUE(run(e).all_ok);
  const Json told = given("01-write-r1");
  const fs::path folder = report() / "runs/01-write-r1";
  EXPECT_EQ(told.at("arguments"),
            Json({"write", "--spec=" + (folder / "spec.json").string(), (folder / "result.json").string(),
                  (folder / "metrics.jsonl").string(), testing::kFakeWorker.string(), "--ranks=1"}));
  EXPECT_EQ(told.at("folder"), folder_.path().string());
  EXPECT_EQ(told.at("environment").at("FAKE_MODE"), "fast");
  EXPECT_EQ(told.at("environment").at("OMP_WAIT_POLICY"), "active")
      << "the rung's environment overrides the machine's";
  EXPECT_EQ(told.at("environment").at("OMP_NUM_THREADS"), "3");
  EXPECT_EQ(told.at("environment").at("OPTRUSH_WORLD_SIZE"), "1");
  EXPECT_EQ(read_json(folder / "spec.json").at("threads"), 3);
  EXPECT_EQ(fields_of<External>().read(read_json(folder / "external.json"), "test"), external);
}

TEST_F(ExternalRung, RunsWithEqualStartsShareOneExport) {
  Experiment e = programs({"write", "print", "pretty"}, 2);
  for (Rung& rung : e.parts[0].rungs) rung.external->command.emplace_back("{start}");
  e.parts[0].rungs[1].settings = {{"threads", 2}};
  e.parts[0].rungs[2].settings = {{"train", {{"micro_batch", 8}}}};
  run(e);
  const auto start_of = [&](const std::string& id) {
    return given(id).at("arguments").at(1).get<std::string>();
  };
  EXPECT_EQ(start_of("01-write-r1"), start_of("01-write-r2"));
  EXPECT_EQ(start_of("01-write-r1"), start_of("02-print-r1"))
      << "the number of threads does not change the start";
  EXPECT_NE(start_of("01-write-r1"), start_of("03-pretty-r1")) << "another batch has other tokens";
  const auto begun = starts();
  EXPECT_EQ(std::ranges::count_if(begun, [](const auto& line) { return line.ends_with(".tmp"); }), 3)
      << "one export for each start: two batches and the gate's probe";
  EXPECT_FALSE(fs::exists(report() / "starts")) << "exported weights are removed";
}

TEST_F(ExternalRung, MissingProgramIsSkippedAndTheOtherRungsRun) {
  Experiment e = programs({"write", "print"});
  e.parts[0].rungs[0].external->command[0] = "/no/such/program";
  EXPECT_TRUE(run(e).all_ok);
  EXPECT_EQ(status("01-write-r1"), "skipped");
  EXPECT_THAT(reason("01-write-r1"), HasSubstr("there is no program '/no/such/program'"));
  EXPECT_EQ(status("02-print-r1"), "ok");
}

TEST_F(ExternalRung, AMissingLibraryIsSkipped) {
  Experiment e = programs({"write", "print"});
  e.parts[0].rungs[0].external->preload = {"libno-such-thing.so.7"};
  e.parts[0].rungs[1].external->preload = {"libc.so.6"};
  EXPECT_TRUE(run(e).all_ok) << "a missing requirement of the machine is no failure";
  EXPECT_EQ(status("01-write-r1"), "skipped");
  EXPECT_THAT(reason("01-write-r1"), HasSubstr("the library libno-such-thing.so.7 is missing"));
  EXPECT_EQ(given("02-print-r1").at("environment").at("LD_PRELOAD"), "libc.so.6");
}

/// The message about requirements that this machine lacks, when these rungs start. Empty if there are none.
class RequirementsTest : public ExternalRung {
 protected:
  RequirementsTest() {
    write_file(folder_ / "present-1.5.dist-info/METADATA",
               "Metadata-Version: 2.1\nName: present\nVersion: 1.5\n");
    setenv("PYTHONPATH", folder_.path().c_str(), 1);
    setenv("OPTRUSH_PYTHON", "python3", 1);
  }
  ~RequirementsTest() override {
    unsetenv("PYTHONPATH");
    unsetenv("OPTRUSH_PYTHON");
  }
  External& external(size_t rung) {
    External& found = *experiment_.parts[0].rungs[rung].external;
    found.folder = folder_.path();
    return found;
  }
  std::string refusal(const std::vector<std::string>& only = {}) const {
    Interrupts interrupts;
    return testing::error_of([&] { require_what_is_needed(Expanded(experiment_), only, interrupts); });
  }
  /// Writes a file to the script's folder.
  std::string file(const std::string& name, const std::string& text) const {
    write_file(folder_ / name, text);
    return name;
  }
  Experiment experiment_ = programs({"write", "print", "pretty"});
};

TEST_F(RequirementsTest, ProgramsWithAllRequirementsPass) {
  external(0).requirements = file("all.txt", "# what it imports\nPresent >= 1.2  # the least\n\n--pre\n");
  external(1).preload = {"libc.so.6"};
  EXPECT_EQ(refusal(), "");
}

TEST_F(RequirementsTest, MissingRequirementsAreNamedOnceWithTheCommand) {
  external(0).requirements = external(1).requirements = file("r.txt", "present\nsurely_absent>=4.2\n");
  external(1).preload = {"libno-such-thing.so.7"};
  external(1).packages = file("p.txt", "# Debian\nlibno-such-thing7\n");
  external(2).command[0] = "no-such-program";
  const std::string said = refusal();
  EXPECT_THAT(said, HasSubstr("python3 lacks surely_absent>=4.2\n    needed by: write, print"));
  EXPECT_THAT(said, HasSubstr("the library libno-such-thing.so.7 is missing\n    needed by: print"));
  EXPECT_THAT(said, HasSubstr("there is no program 'no-such-program'\n    needed by: pretty"));
  EXPECT_THAT(said, HasSubstr("python3 -m pip install -r " + (folder_ / "r.txt").string()));
  EXPECT_THAT(said, HasSubstr("apt-get install libno-such-thing7 (as root, on Debian)"));
  EXPECT_THAT(said, HasSubstr("--skip-missing"));
}

TEST_F(RequirementsTest, OnlyRequestedRungsCount) {
  external(0).requirements = file("r.txt", "surely_absent\n");
  EXPECT_THAT(refusal(), HasSubstr("surely_absent"));
  EXPECT_EQ(refusal({"print"}), "");
}

TEST_F(RequirementsTest, AnotherVersionIsNotEnough) {
  // Versions are compared if Python's package `packaging` is installed, as pip and transformers require it.
  write_file(folder_ / "packaging/__init__.py", "");
  write_file(folder_ / "packaging/requirements.py",
             "class Requirement:\n  marker = None\n  def __init__(self, line): self.specifier = self\n"
             "  def contains(self, version, prereleases): return version == '2.0'\n");
  external(0).requirements = file("r.txt", "present>=2\n");
  EXPECT_THAT(refusal(), HasSubstr("python3 lacks present>=2 (1.5 is installed)"));
}

TEST_F(RequirementsTest, ShippedPeersAreInstalledByTheLauncher) {
  const fs::path python = folder_ / "python";
  write_file(python, "#!/bin/sh\necho '[\"transformers>=4.57\"]'\n");
  fs::permissions(python, fs::perms::owner_all);
  setenv("OPTRUSH_PYTHON", python.c_str(), 1);
  External& peer = external(0);
  peer.folder = fs::path(testing::tests_folder()).parent_path() / "experiments";
  peer.requirements = "peers/requirements.txt";
  peer.packages = "peers/packages.txt";
  peer.preload = {"libno-such-thing.so.7"};
  EXPECT_THAT(refusal(), HasSubstr("optrush setup peers; or skip these rungs")) << "one command for both";
}

TEST_F(RequirementsTest, APluginsCompilerCountsToo) {
  experiment_.parts[0].rungs.push_back({.name = "compiled", .plugins = {{"compile"}}, .where = "fake.lua:2"});
  setenv("CXX", "/no/such/compiler", 1);
  EXPECT_THAT(refusal(), HasSubstr("a C++ compiler: /no/such/compiler was not found"));
  EXPECT_EQ(refusal({"write"}), "");
  unsetenv("CXX");
}

TEST_F(RequirementsTest, SampleOfACheckpointNeedsItsTokenizer) {
  file("checkpoint/tokenizer.json", "{}");
  experiment_.base.model = {{"checkpoint", (folder_ / "checkpoint").string()}};
  experiment_.base.sample.prompts = {"once"};
  const fs::path python = folder_ / "python";
  const auto packages = [&](const char* missing) {
    write_file(python, std::string("#!/bin/sh\necho '") + missing + "'\n");
    fs::permissions(python, fs::perms::owner_all);
  };
  setenv("OPTRUSH_PYTHON", python.c_str(), 1);
  packages("[\"transformers\"]");
  EXPECT_THAT(refusal(),
              HasSubstr("lacks transformers, which reads the tokenizer of the checkpoint for sample\n"
                        "    needed by: base"));
  EXPECT_THAT(refusal(), HasSubstr("-m pip install transformers"));
  packages("[]");
  EXPECT_EQ(refusal(), "");
}

TEST_F(ExternalRung, AnotherCommandOrFileIsAnotherRun) {
  Experiment e = programs({"write", "print"});
  for (Rung& rung : e.parts[0].rungs) rung.external->files = {{"train.py", "aa"}};
  run(e);
  const auto again = [&](const std::string& id) {
    fs::remove(report() / "runs" / id / "given.json");
    return [this, id] { return fs::exists(report() / "runs" / id / "given.json"); };
  };
  const auto first = again("01-write-r1"), second = again("02-print-r1");
  run(e, resuming());
  EXPECT_FALSE(first() || second());
  e.parts[0].rungs[1].external->files["train.py"] = "bb";
  run(e, resuming());
  EXPECT_FALSE(first());
  EXPECT_TRUE(second());
}
}  // namespace
}  // namespace optrush
