// Plans and runs have the same results, ends and messages in forks of one worker as in separate processes.
#include "launch/fork_server.h"

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <map>
#include <thread>

#include "ends.h"
#include "fixture.h"
#include "launch/schedule/planner.h"
#include "process/orphans.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using Kind = ProcessEnd::Kind;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

class ForkServerTest : public testing::Launch {
 protected:
  ForkServerTest() {
    setenv("FAKE_FORK_SERVERS", servers_file_.c_str(), 1);
    setenv("FAKE_RUN_SERVERS", run_servers_file_.c_str(), 1);
    setenv("FAKE_PLANS", plans_file_.c_str(), 1);
  }
  ~ForkServerTest() override {
    for (const char* name : {"FAKE_FORK_SERVERS", "FAKE_RUN_SERVERS", "FAKE_PLANS", "FAKE_FORK_SERVER"})
      unsetenv(name);
  }
  static void fault(const std::string& name) { setenv("FAKE_FORK_SERVER", name.c_str(), 1); }

  static std::vector<pid_t> numbers_in(const fs::path& file) {
    std::vector<pid_t> numbers;
    std::ifstream in(file);
    for (pid_t number = 0; in >> number;) numbers.push_back(number);
    return numbers;
  }
  /// The server processes, and the processes that planned.
  std::vector<pid_t> servers() const { return numbers_in(servers_file_); }
  std::vector<pid_t> run_servers() const { return numbers_in(run_servers_file_); }
  std::vector<pid_t> plans() const { return numbers_in(plans_file_); }

  RunRequest quick() const {
    RunRequest r = request();
    r.plan_timeout_s = 1;
    return r;
  }

  /// The plan of a rung whose name tells the fake worker what to do.
  ProcessEnd plan(ForkServer& workers, const std::string& rung, const Limits& limits = {},
                  const Environment& environment = {}) {
    RunSpec spec;
    spec.rung = rung;
    fs::remove(folder_ / "plan.json");
    write_json(folder_ / "spec.json", to_json(spec));
    return workers.run(
        {{testing::kFakeWorker, "plan", "--spec", folder_ / "spec.json", "--out", folder_ / "plan.json"},
         environment,
         folder_ / "log.txt"},
        limits, interrupts_);
  }
  bool planned() const { return fs::exists(folder_ / "plan.json"); }

  const fs::path servers_file_ = folder_ / "servers", run_servers_file_ = folder_ / "run_servers",
                 plans_file_ = folder_ / "plans";
  Interrupts interrupts_;
};

TEST_F(ForkServerTest, AnExperimentLoadsTheWorkerOnce) {
  EXPECT_TRUE(run(experiment({"a", "b", "c", "d", "e"})).all_ok);
  EXPECT_THAT(servers(), SizeIs(1));
  const auto planned = plans();
  EXPECT_THAT(planned, SizeIs(6));
  EXPECT_EQ(std::set(planned.begin(), planned.end()).size(), 6U);
  EXPECT_TRUE(testing::ends(servers().front())) << "it ends with the experiment";
}

TEST_F(ForkServerTest, ARoundLoadsTheWorkerOnce) {
  for (const auto interleave : {Interleave::off, Interleave::on}) {
    fs::remove(run_servers_file_);
    auto e = experiment({"a", "b", "c"}, 2);
    e.interleave = interleave;
    e.name = "fake" + std::to_string(static_cast<int>(interleave));
    EXPECT_TRUE(run(e).all_ok);
    EXPECT_THAT(run_servers(), SizeIs(2)) << "one for each round; the base's last run belongs to the last";
    for (const pid_t server : run_servers()) EXPECT_TRUE(testing::ends(server));
  }
}

/// If the server fails, the runs are started as separate processes.
TEST_F(ForkServerTest, RunsAreEqualWithoutAServer) {
  const auto results = [&](const std::string& how) {
    fault(how);
    run(experiment({"a", "crash", "oom"}));
    Json all = Json::array();
    for (const char* id : {"01-a-r1", "02-crash-r1", "03-oom-r1"}) all.push_back({status(id), reason(id)});
    fs::remove_all(report());
    return all;
  };
  const Json by_forks = results("");
  EXPECT_EQ(by_forks.at(0).at(0), "ok");
  EXPECT_THAT(by_forks.at(1).at(1).get<std::string>(), HasSubstr("the last words"));
  for (const char* how : {"exit", "threads", "junk", "group", "untold", "once"})
    EXPECT_EQ(results(how), by_forks) << how;
}

TEST_F(ForkServerTest, VariableThatIsReadLateNeedsNoOtherServer) {
  ForkServer workers(testing::kFakeWorker);
  for (const char* value : {"1", "2"}) {
    EXPECT_EQ(plan(workers, "planvariable", {}, {{"OPTRUSH_OF_PLAN", value}}).code, 0);
    EXPECT_EQ(read_file(folder_ / "log.txt"), std::string(value) + "\n");
  }
  EXPECT_THAT(servers(), SizeIs(1));
}

TEST_F(ForkServerTest, OneServerServesSeveralExperiments) {
  ForkServer workers(testing::kFakeWorker);
  RunRequest r = request();
  r.workers = &workers;
  run(experiment({"a"}), r);
  run(experiment({"b"}), r);
  EXPECT_THAT(servers(), SizeIs(1));
  EXPECT_THAT(plans(), SizeIs(4));
}

TEST_F(ForkServerTest, FailedPlanDoesNotAffectOtherPlans) {
  const auto bad =
      experiment({"planhang", "plancrash", "plankilled", "plannothing", "planjunk", "unplanned", "a"});
  run(bad, quick());
  EXPECT_THAT(servers(), SizeIs(1));
  EXPECT_EQ(status("01-planhang-r1"), "timeout");
  EXPECT_THAT(reason("02-plancrash-r1"), HasSubstr("while planning: ended by SIGSEGV"));
  EXPECT_EQ(status("03-plankilled-r1"), testing::killed_by_hand().status == Status::oom ? "oom" : "crashed");
  EXPECT_THAT(reason("04-plannothing-r1"),
              AllOf(HasSubstr("exit code 3"), HasSubstr("the last words of a plan")));
  EXPECT_EQ(status("07-a-r1"), "ok");
}

/// If the server fails, each plan is made in a separate process.
TEST_F(ForkServerTest, PlansAreEqualWithoutAServer) {
  const auto e = experiment({"plancrash", "unplanned", "planskip", "plannothing"});
  const auto answers = [&](const std::string& how) {
    fault(how);
    fs::remove(servers_file_);
    fs::remove(plans_file_);
    auto variants = Expanded(e).variants;
    const Schedule schedule(variants, e, {});
    Plans plans(variants.size());
    ForkServer workers(testing::kFakeWorker);
    const auto failures =
        plan_all(e, variants, schedule, plans, {workers, {}}, interrupts_, [](const Variant&) {});
    Json list = Json::array();
    for (const auto& plan : plans) list.push_back(to_json(plan));
    for (const auto& [variant, planned] : failures.value())
      list.push_back({variant, to_string(planned.failure.status), planned.failure.reason});
    return list;
  };
  const Json by_forks = answers("");
  EXPECT_THAT(servers(), SizeIs(1));
  EXPECT_THAT(by_forks.back().dump(), AllOf(HasSubstr("exit code 3"), HasSubstr("the last words of a plan")));
  const std::map<std::string, size_t> faults = {{"exit", 1},  {"threads", 1}, {"junk", 1},
                                                {"group", 1}, {"untold", 1},  {"once", 5}};
  for (const auto& [how, started] : faults) {
    EXPECT_EQ(answers(how), by_forks) << how;
    EXPECT_THAT(plans(), SizeIs(5)) << how;
    EXPECT_THAT(servers(), SizeIs(started)) << how;
  }
}

TEST_F(ForkServerTest, SilentServerCostsNoMoreThanTheTimeLimit) {
  for (const char* how : {"hang", "silent"}) {
    fault(how);
    fs::remove(servers_file_);
    fs::remove(plans_file_);
    ForkServer workers(testing::kFakeWorker);
    EXPECT_EQ(plan(workers, "a", {.timeout_s = 0.5, .grace_s = 0.1}).kind, Kind::timed_out) << how;
    EXPECT_FALSE(planned());
    ASSERT_THAT(servers(), SizeIs(1));
    EXPECT_TRUE(testing::ends(servers().front()));
    EXPECT_EQ(plan(workers, "a").code, 0) << "started as usual";
    EXPECT_TRUE(planned());
    EXPECT_THAT(servers(), SizeIs(1));
  }
}

TEST_F(ForkServerTest, KilledServerIsStartedAgain) {
  ForkServer workers(testing::kFakeWorker);
  plan(workers, "a");
  kill(servers().at(0), SIGKILL);
  EXPECT_EQ(plan(workers, "b").code, 0);
  EXPECT_TRUE(planned());
  EXPECT_EQ(plan(workers, "c").code, 0);
  EXPECT_THAT(servers(), SizeIs(2));
  EXPECT_TRUE(testing::ends(servers().at(0)));
}

TEST_F(ForkServerTest, AnotherEnvironmentGetsAnotherServer) {
  auto e = experiment({"a", "b", "c"});
  e.parts.front().rungs.at(1).settings = {{"env", {{"FAKE_OF_RUNG", "1"}}}};
  run(e);
  EXPECT_THAT(plans(), SizeIs(4));
  EXPECT_THAT(servers(), SizeIs(2)) << "c is stacked on b";
}

TEST_F(ForkServerTest, MissingWorkerIsNamed) {
  ForkServer workers(folder_ / "none");
  EXPECT_THAT(testing::error_of([&] {
                workers.run({{folder_ / "none", "plan"}, {}, folder_ / "log.txt"}, {}, interrupts_);
              }),
              AllOf(HasSubstr("cannot start '"), HasSubstr("none'"), HasSubstr("No such file or directory")));
}

TEST_F(ForkServerTest, InterruptLeavesNoProcess) {
  ForkServer workers(testing::kFakeWorker);
  std::thread interrupter([&] {
    while (plans().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    kill(getpid(), SIGINT);
  });
  EXPECT_EQ(plan(workers, "planhang").kind, Kind::interrupted);
  interrupter.join();
  EXPECT_EQ(interrupts_.signal(), SIGINT);
  EXPECT_TRUE(testing::ends(plans().at(0)));
}

TEST_F(ForkServerTest, AnInterruptEndsTheWaitForAServer) {
  fault("hang");
  ForkServer workers(testing::kFakeWorker);
  std::thread interrupter([&] {
    while (servers().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    kill(getpid(), SIGINT);
  });
  EXPECT_EQ(plan(workers, "planhang").kind, Kind::interrupted);
  interrupter.join();
  EXPECT_TRUE(testing::ends(servers().at(0)));
}

TEST_F(ForkServerTest, ServerAndPlanDieWithTheirParent) {
  const pid_t parent = fork();
  if (parent == 0) {
    ForkServer workers(testing::kFakeWorker);
    plan(workers, "planhang");
    _exit(0);
  }
  while (plans().empty()) usleep(1000);
  const pid_t server = servers().at(0), planning = plans().at(0);
  kill(parent, SIGKILL);
  EXPECT_TRUE(testing::ends(planning));
  EXPECT_TRUE(testing::ends(server));
  waitpid(parent, nullptr, 0);
}

TEST_F(ForkServerTest, ProcessesOfAPlanEndWithIt) {
  ForkServer workers(testing::kFakeWorker);
  const auto end = plan(workers, "planleaves");
  EXPECT_EQ(end.code, 0);
  EXPECT_TRUE(testing::ends(read_json(folder_ / "plan.json.child").get<pid_t>()));
}

/// Runs in a separate process: the process that adopts orphans ends all of its children except the server.
TEST_F(ForkServerTest, ServerIsNotEndedAsAnOrphan) {
  const pid_t controller = fork();
  if (controller == 0) {
    adopt_orphans();
    ForkServer workers(testing::kFakeWorker);
    plan(workers, "a");
    const auto end =
        run_process({{"sh", "-c", testing::leaves_a_sleep(folder_ / "number")}, {}, folder_ / "log.txt"}, {},
                    interrupts_);
    const bool named = end.orphans.size() == 1 && end.orphans.front().starts_with("sleep (");
    plan(workers, "b");
    _exit(named && planned() && servers().size() == 1 ? 0 : 1);
  }
  int status = 0;
  waitpid(controller, &status, 0);
  EXPECT_EQ(status, 0);
}
}  // namespace
}  // namespace optrush
