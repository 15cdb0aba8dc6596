// Runs that are interleaved with each other, by a fake worker: who comes when, and what becomes of those that
// end badly.
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <csignal>
#include <set>

#include "fixture.h"
#include "launch/interleaving/interleaved_round.h"
#include "launch/interleaving/interleaving_choice.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(StartOrder, EachRoundHasOneOfItsOwnAndTheFirstTheScripts) {
  const auto first = start_order(6, 0);
  EXPECT_TRUE(std::ranges::is_sorted(first));
  for (int64_t round = 0; round < 12; round += 2) {
    auto back = start_order(6, round + 1);
    std::ranges::reverse(back);
    EXPECT_EQ(back, start_order(6, round)) << "who was early is late next time";
  }
  std::set<std::vector<size_t>> orders;
  std::vector<double> places(6, 0);
  for (int64_t round = 0; round < 60; ++round) {
    auto order = start_order(6, round);
    EXPECT_EQ(order, start_order(6, round));
    orders.insert(order);
    for (size_t place = 0; place < 6; ++place) places[order[place]] += static_cast<double>(place) / 60;
    std::ranges::sort(order);
    EXPECT_EQ(order, first);
  }
  EXPECT_GT(orders.size(), 50U);
  for (const double place : places) EXPECT_NEAR(place, 2.5, 1e-9) << "on average in the middle";
}

TEST(TurnOrder, EachCycleBeginsOneLater) {
  EXPECT_THAT(turn_order(3, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(turn_order(3, 1), ElementsAre(1, 2, 0));
  EXPECT_THAT(turn_order(3, 5), ElementsAre(2, 0, 1));
  EXPECT_THAT(turn_order(1, 7), ElementsAre(0));
}

TEST(StepsOfATurn, LastAQuarterOfASecondAndLeaveFourTurns) {
  EXPECT_EQ(steps_of_a_turn({1.0, 2.0}, 10), 1);
  EXPECT_EQ(steps_of_a_turn({1.0, 0.1}, 100), 3) << "by the fastest";
  EXPECT_EQ(steps_of_a_turn({0.001}, 20), 5) << "four turns at least";
  EXPECT_EQ(steps_of_a_turn({0.001}, 6), 2) << "the first of them is not timed";
  EXPECT_EQ(steps_of_a_turn({0.001}, 4), 2);
  EXPECT_EQ(steps_of_a_turn({0.001}, 3), 1);
  EXPECT_EQ(steps_of_a_turn({0.2, 0.3}, 6), 2);
  EXPECT_EQ(steps_of_a_turn({0.3}, 6), 1) << "too long to show cold caches";
  EXPECT_EQ(steps_of_a_turn({0, 0}, 20), 1) << "nobody knows";
  EXPECT_EQ(steps_of_a_turn({1e-300}, 1 << 20), 1 << 18);
}

/// A client that says what a test wants.
class Client {
 public:
  explicit Client(const fs::path& path) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path.string().copy(address.sun_path, sizeof address.sun_path);
    EXPECT_EQ(connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  void say(const std::string& line) const {
    const std::string whole = line + "\n";
    EXPECT_EQ(send(socket_.get(), whole.data(), whole.size(), MSG_NOSIGNAL), whole.size());
  }
  std::string hears() const {
    std::string line(200, '\0');
    line.resize(static_cast<size_t>(recv(socket_.get(), line.data(), line.size(), 0)));
    return line;
  }

 private:
  Descriptor socket_;
};

class Socket : public ::testing::Test {
 protected:
  const TemporaryFolder folder_;
  const fs::path path_ = folder_ / "s";
  InterleavingSocket socket_{path_};
};

TEST_F(Socket, TheTurnIsEveryRanks) {
  const Client zero(path_), one(path_);
  zero.say(R"({"type":"ready","rank":0,"ranks":2,"seconds":0.5})");
  socket_.poll();
  EXPECT_TRUE(socket_.spoke());
  EXPECT_FALSE(socket_.waits()) << "the other one still works";
  one.say(R"({"type":"ready","rank":1,"ranks":2,"seconds":0.75})");
  socket_.poll();
  EXPECT_TRUE(socket_.waits());
  EXPECT_EQ(socket_.step_seconds(), 0.75);
  socket_.go(3);
  EXPECT_FALSE(socket_.waits());
  EXPECT_EQ(zero.hears(), "{\"type\":\"go\",\"steps\":3}\n");
  EXPECT_EQ(one.hears(), "{\"type\":\"go\",\"steps\":3}\n");
  one.say(R"({"type":"done","seconds":0.25})");
  socket_.poll();
  EXPECT_FALSE(socket_.waits());
  zero.say(R"({"type":"done","seconds":0.25})");
  socket_.poll();
  EXPECT_TRUE(socket_.waits());
}

TEST_F(Socket, NonsenseIsRefused) {
  const auto refusal = [&](const std::vector<std::string>& lines) {
    const fs::path path = folder_ / "other";
    fs::remove(path);
    InterleavingSocket socket(path);
    const Client client(path);
    for (const auto& line : lines) client.say(line);
    return error_of([&] { socket.poll(); });
  };
  const std::string ready = R"({"type":"ready","rank":0,"ranks":1,"seconds":0.1})",
                    done = R"({"type":"done","seconds":0.1})";
  EXPECT_THAT(refusal({"good morning"}), HasSubstr("a message"));
  EXPECT_THAT(refusal({R"({"type":"go"})"}), HasSubstr(R"(its message: {"type":"go"})"));
  EXPECT_THAT(refusal({done}), HasSubstr(R"("ready" must come first)"));
  EXPECT_THAT(refusal({ready, done}), HasSubstr("without having been asked"));
  EXPECT_THAT(refusal({ready, ready}), HasSubstr(R"("ready" must come first and once)"));
  EXPECT_THAT(refusal({R"({"type":"ready","rank":2,"ranks":2,"seconds":0.1})"}),
              HasSubstr("rank does not exist"));
  EXPECT_THAT(refusal({R"({"type":"ready","rank":0,"ranks":1})"}), HasSubstr("seconds"));
  EXPECT_THAT(refusal({std::string(5000, 'x')}), HasSubstr("a line of more than"));
}

TEST_F(Socket, RanksAgree) {
  const Client one(path_), same(path_);
  one.say(R"({"type":"ready","rank":0,"ranks":2,"seconds":0.1})");
  socket_.poll();
  same.say(R"({"type":"ready","rank":0,"ranks":2,"seconds":0.1})");
  EXPECT_THAT(error_of([&] { socket_.poll(); }), HasSubstr("already connected"));
}

class Choice : public ::testing::Test {
 protected:
  static Plan plan(double peak, const std::string& device = "cpu") {
    Plan plan;
    plan.memory = PlannedMemory{.peak = peak, .least = peak, .available = 10e9, .device = device};
    return plan;
  }
  std::vector<std::string> chosen(const Plans& plans, Interleave setting = Interleave::automatic,
                                  bool launched = false) const {
    std::vector<Job> jobs;
    for (size_t i = 0; i < plans.size(); ++i) {
      Job job{.id = std::to_string(i), .spec = {}};
      job.spec.variant = static_cast<int64_t>(i);
      if (i == several_) job.spec.train.world_size = 2;
      if (i == saves_) job.spec.save.every = 10;
      if (i == external_) job.external = External{.interleave = speaks_};
      jobs.push_back(job);
    }
    std::vector<std::string> ids;
    for (const auto& job : chosen_for_interleaving(jobs, plans, measured_, free_, setting, launched))
      ids.push_back(job.id);
    return ids;
  }
  MeasuredPeaks measured_;
  double free_ = 0;
  size_t several_ = 99, external_ = 99, saves_ = 99;
  bool speaks_ = false;
};

TEST_F(Choice, WhatFitsTogether) {
  EXPECT_THAT(chosen({plan(1e9), plan(1e9), plan(2e9)}), ElementsAre("0", "1", "2"));
  EXPECT_THAT(chosen({plan(2e9), plan(6e9), plan(2e9)}), ElementsAre("0", "2"))
      << "each as long as there is room";
  EXPECT_THAT(chosen({plan(7e9), plan(2e9)}), IsEmpty()) << "one alone takes no turns";
  EXPECT_THAT(chosen({plan(1e9), plan(1e9), Plan{}}), ElementsAre("0", "1")) << "not predicted";
  EXPECT_THAT(chosen({plan(1, "cuda"), plan(1, "cuda")}), IsEmpty());
}

TEST_F(Choice, TheScriptMayAsk) {
  EXPECT_THAT(chosen({plan(1), plan(1)}, Interleave::off), IsEmpty());
  EXPECT_THAT(chosen({plan(9e9, "cuda"), plan(9e9), Plan{}}, Interleave::on), ElementsAre("0", "1", "2"));
}

TEST_F(Choice, RanksCountEach) {
  several_ = 1;
  EXPECT_THAT(chosen({plan(1e9), plan(3e9)}), IsEmpty()) << "1.5 + 2 * 3.5 is more than 8";
  EXPECT_THAT(chosen({plan(1e9), plan(2e9)}), ElementsAre("0", "1"));
  EXPECT_THAT(chosen({plan(1e9), plan(2e9)}, Interleave::on, /*launched=*/true), IsEmpty())
      << "they may be elsewhere";
}

TEST_F(Choice, WhoSavesStatesIsAsked) {
  saves_ = 1;
  EXPECT_THAT(chosen({plan(1), plan(1), plan(1)}), ElementsAre("0", "2"));
  EXPECT_THAT(chosen({plan(1), plan(1), plan(1)}, Interleave::on), ElementsAre("0", "1", "2"));
}

TEST_F(Choice, ProgramsThatSaySo) {
  external_ = 1;
  measured_ = {{1, 1e9}};
  EXPECT_THAT(chosen({plan(1), plan(1), plan(1)}), ElementsAre("0", "2"));
  speaks_ = true;
  EXPECT_THAT(chosen({plan(1), plan(1), plan(1)}), ElementsAre("0", "1", "2"));
  measured_.clear();
  EXPECT_THAT(chosen({plan(1), plan(1), plan(1)}), ElementsAre("0", "2"))
      << "its plan predicts the host's step, not the program's";
  EXPECT_THAT(chosen({plan(1), plan(1), plan(1)}, Interleave::on), ElementsAre("0", "1", "2"));
}

TEST_F(Choice, WhatIsNotForeseenIsMeasuredFirst) {
  const Plan unpredicted;
  EXPECT_THAT(chosen({plan(1e9), plan(1e9), unpredicted}), ElementsAre("0", "1"));
  measured_ = {{2, 2e9}};
  EXPECT_THAT(chosen({plan(1e9), plan(1e9), unpredicted}), ElementsAre("0", "1", "2"));
  measured_ = {{2, 5e9}};
  EXPECT_THAT(chosen({plan(1e9), plan(1e9), unpredicted}), ElementsAre("0", "1")) << "1.5 + 1.5 + 5.5 > 8";
  several_ = 2;
  measured_ = {{2, 2.1e9}};
  EXPECT_THAT(chosen({plan(1e9), plan(1e9), unpredicted}), ElementsAre("0", "1")) << "two processes of it";
  measured_ = {{0, 1e9}, {1, 1e9}, {2, 1e9}};
  several_ = 99;
  EXPECT_THAT(chosen({unpredicted, unpredicted, unpredicted}), IsEmpty()) << "nothing is free";
  free_ = 4e9;
  EXPECT_THAT(chosen({unpredicted, unpredicted, unpredicted}), ElementsAre("0", "1"))
      << "3 * 1.5 is more than 3.2";
  EXPECT_THAT(chosen({plan(1, "cuda"), unpredicted, unpredicted}), IsEmpty())
      << "a GPU's memory is another one";
}

TEST_F(Choice, ThePeaksAreThoseOfGoodMeasurementsOnACPU) {
  const auto noted = [](const RunResult& result, Purpose purpose = Purpose::measure) {
    MeasuredPeaks measured{{3, 2e9}};
    Job job{.id = "x", .spec = {}};
    job.spec.variant = 3;
    job.spec.purpose = purpose;
    note_peak(job, result, measured);
    return measured.at(3);
  };
  const auto result = [](Status status, const std::string& device, std::optional<double> process) {
    RunResult result({status, ""});
    result.on_gpu = device == "cuda";
    result.memory.process = process;
    return result;
  };
  EXPECT_EQ(noted(result(Status::ok, "cpu", 3e9)), 3e9);
  EXPECT_EQ(noted(result(Status::ok, "cpu", 1e9)), 2e9) << "the highest of all rounds";
  EXPECT_EQ(noted(result(Status::ok, "cuda", 3e9)), 2e9) << "that is a GPU's memory";
  EXPECT_EQ(noted(result(Status::crashed, "cpu", 3e9)), 2e9);
  EXPECT_EQ(noted(result(Status::ok, "cpu", std::nullopt)), 2e9);
  EXPECT_EQ(noted(result(Status::ok, "cpu", 3e9), Purpose::probe), 2e9);
  const Json program = {
      {"schema_version", 1}, {"status", "ok"}, {"reason", ""}, {"memory", {{"process", 3e9}}}};
  EXPECT_EQ(noted(run_result_from_json(program, "a program")), 3e9) << "it need not name a device";
}

class Interleaving : public testing::Launch {
 protected:
  Interleaving() { setenv("FAKE_WORKER_TURNS", turns_file_.c_str(), 1); }
  ~Interleaving() override {
    unsetenv("FAKE_WORKER_TURNS");
    unsetenv("FAKE_STEP_SECONDS");
  }
  /// Four timed steps of a second each, as the fake worker says, so a turn is one.
  static Experiment interleaved(const std::vector<std::string>& rungs, int64_t rounds = 1) {
    Experiment e = experiment(rungs, rounds);
    e.base.train.steps = 4;
    e.interleave = Interleave::on;
    return e;
  }
  RunOutcome run(const Experiment& e) { return run(e, request()); }
  RunOutcome run(const Experiment& e, const RunRequest& r) {
    fs::remove(turns_file_);
    return Launch::run(e, r);
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    std::istringstream text(read_file(turns_file_));
    for (std::string line; std::getline(text, line);) all.push_back(line);
    return all;
  }
  /// Who had the turn, in order: "base 1" had it for one step.
  std::vector<std::string> turns() const {
    std::vector<std::string> all;
    for (const auto& line : lines())
      if (const size_t has = line.find(" has "); has != std::string::npos)
        all.push_back(line.substr(0, has) + line.substr(has + 4));
    return all;
  }
  std::string group(const std::string& id) const { return result(id).value("turns", ""); }

  const fs::path turns_file_ = folder_ / "turns";
};

TEST_F(Interleaving, TheOrderRotates) {
  EXPECT_TRUE(run(interleaved({"a", "b"})).all_ok);
  EXPECT_THAT(turns(), ElementsAre("base 1", "a 1", "b 1",  //
                                   "a 1", "b 1", "base 1",  //
                                   "b 1", "base 1", "a 1",  //
                                   "base 1", "a 1", "b 1"));
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "01-a-r1", "02-b-r1", "00-base-drift"));
}

TEST_F(Interleaving, WhatIsNotForeseenJoinsFromTheSecondRoundOn) {
  setenv("FAKE_MEMORY", "8e9", 1);
  Experiment e = interleaved({"a", "unpredicted"}, 3);
  e.interleave = Interleave::automatic;
  EXPECT_TRUE(run(e).all_ok);
  EXPECT_EQ(group("02-unpredicted-r1"), "");
  EXPECT_NE(group("01-a-r1"), "");
  for (const std::string round : {"r2", "r3"}) {
    EXPECT_NE(group("02-unpredicted-" + round), "");
    EXPECT_EQ(group("02-unpredicted-" + round), group("00-base-" + round));
  }
  // The same choice where what is there is only read again.
  const std::string before = group("02-unpredicted-r2");
  fs::remove_all(report() / "runs/00-base-r3");
  EXPECT_TRUE(run(e, resuming()).all_ok);
  EXPECT_EQ(group("02-unpredicted-r2"), before);
  EXPECT_EQ(group("02-unpredicted-r3"), group("00-base-r3"));
  unsetenv("FAKE_MEMORY");
}

TEST_F(Interleaving, OnlyOneWorks) {
  run(interleaved({"turnslow", "b"}));
  std::string working;
  for (const auto& line : lines()) {
    const std::string name = line.substr(0, line.find(' ')), what = line.substr(name.size() + 1);
    if (what == "waits") {
      EXPECT_EQ(working, name) << line;
      working.clear();
    } else {
      // A run that has made its last steps ends with the turn.
      EXPECT_TRUE(working.empty() || what == "has 1") << line << ", while " << working << " works";
      working = name;
    }
  }
}

TEST_F(Interleaving, ShortStepsHaveSeveralInATurn) {
  setenv("FAKE_STEP_SECONDS", "0.1", 1);
  auto e = interleaved({"a"});
  e.base.train.steps = 14;
  EXPECT_TRUE(run(e).all_ok);
  EXPECT_THAT(turns(), ElementsAre("base 3", "a 3", "a 3", "base 3", "base 3", "a 3", "a 3", "base 3",
                                   "base 2", "a 2"))
      << "the last turn has the steps that are left";
}

TEST_F(Interleaving, AGroupOfARoundHasAName) {
  EXPECT_TRUE(run(interleaved({"a"}, 2)).all_ok);
  EXPECT_THAT(group("00-base-r1"), HasSubstr("r1-"));
  EXPECT_EQ(group("00-base-r1"), group("01-a-r1"));
  EXPECT_EQ(group("00-base-r2"), group("01-a-r2"));
  EXPECT_NE(group("00-base-r1"), group("00-base-r2"));
  EXPECT_EQ(group("00-base-drift"), "") << "it ran alone";
}

TEST_F(Interleaving, TheRestGoesOnWithoutWhoCrashed) {
  EXPECT_FALSE(run(interleaved({"turncrash", "b"}, 2)).all_ok);
  EXPECT_EQ(status("01-turncrash-r1"), "crashed");
  EXPECT_THAT(reason("01-turncrash-r1"), HasSubstr("SIGSEGV"));
  EXPECT_EQ(status("01-turncrash-r2"), "skipped");
  EXPECT_EQ(group("00-base-r1"), group("02-b-r1"));
  EXPECT_NE(group("00-base-r1"), "");
  const auto all = turns();
  EXPECT_THAT(std::vector(all.begin(), all.begin() + 11),
              ElementsAre("base 1", "turncrash 1", "b 1", "turncrash 1", "b 1", "base 1", "base 1", "b 1",
                          "b 1", "base 1", "b 1"))
      << "round 2 starts them in the reverse order";
}

TEST_F(Interleaving, AHangIsATimeout) {
  auto e = interleaved({"turnhang", "b"});
  e.parts[0].rungs[0].settings = {{"timeout_s", 1.5}};
  EXPECT_FALSE(run(e).all_ok);
  EXPECT_EQ(status("01-turnhang-r1"), "timeout");
  EXPECT_THAT(reason("01-turnhang-r1"), HasSubstr("did not end within 1.5 s"));
  EXPECT_EQ(status("02-b-r1"), "ok");
}

TEST_F(Interleaving, WaitingIsNotOnTheClock) {
  // Three turns of 0.4 s each: alone a run has its time, and with the others it would not.
  auto e = interleaved({"turnslow 1", "turnslow 2", "turnslow 3", "turnslow 4", "turnslow 5", "turnslow 6"});
  e.base.timeout_s = 6;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(run(e).all_ok);
  EXPECT_GT(std::chrono::steady_clock::now() - start, std::chrono::seconds(6));
}

TEST_F(Interleaving, WhoSpeaksNonsenseFails) {
  EXPECT_FALSE(run(interleaved({"turnjunk", "turntwice", "good"})).all_ok);
  EXPECT_EQ(status("01-turnjunk-r1"), "failed");
  EXPECT_THAT(reason("01-turnjunk-r1"), HasSubstr("not valid JSON"));
  EXPECT_EQ(status("02-turntwice-r1"), "failed");
  EXPECT_THAT(reason("02-turntwice-r1"),
              AllOf(HasSubstr("without having been asked"), HasSubstr("its message: {")));
  EXPECT_EQ(status("03-good-r1"), "ok");
}

TEST_F(Interleaving, OutOfMemoryBesideOthersIsTriedAlone) {
  EXPECT_TRUE(run(interleaved({"turnoom", "b"}, 2)).all_ok);
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "01-turnoom-r1", "02-b-r1", "01-turnoom-r1", "02-b-r2",
                                    "00-base-r2", "01-turnoom-r2", "00-base-drift"))
      << "from then on it runs by itself";
  EXPECT_EQ(group("01-turnoom-r1"), "");
  EXPECT_EQ(group("00-base-r1"), group("02-b-r1"));
}

TEST_F(Interleaving, OutOfMemoryAloneIsOutOfMemory) {
  EXPECT_FALSE(run(interleaved({"oom", "b"})).all_ok);
  EXPECT_EQ(status("01-oom-r1"), "oom");
  EXPECT_EQ(std::ranges::count(starts(), "01-oom-r1"), 2);
}

TEST_F(Interleaving, WhoDoesNotKnowOfThemRunsToItsEndAtOnce) {
  EXPECT_TRUE(run(interleaved({"silent", "b"})).all_ok);
  EXPECT_EQ(group("01-silent-r1"), "");
  EXPECT_THAT(turns(), Each(Not(HasSubstr("silent"))));
}

TEST_F(Interleaving, ASignalEndsAll) {
  const auto outcome = run(interleaved({"turnsignal", "b"}));
  EXPECT_EQ(outcome.signal, SIGINT);
  EXPECT_FALSE(fs::exists(report() / "runs/00-base-r1/result.json"));
  EXPECT_FALSE(fs::exists(report() / "runs/02-b-r1/result.json"));
}

TEST_F(Interleaving, ASignalCutsARoundToTheStepsThatAllHaveMade) {
  Experiment e = interleaved({"turnstop", "b"}, 3);
  e.base.train.steps = 10;
  EXPECT_EQ(run(e).signal, SIGINT);
  for (const char* id : {"00-base-r1", "01-turnstop-r1", "02-b-r1"}) {
    EXPECT_EQ(status(id), "ok") << id;
    EXPECT_EQ(result(id).value("cut", ""), "interrupt") << id;
    EXPECT_EQ(group(id), group("00-base-r1"));
    const auto steps = result(id).at("steps").size();  // with three of warm-up
    EXPECT_THAT(steps, ::testing::AllOf(::testing::Ge(3 + 4U), ::testing::Le(3 + 5U))) << id;
  }
  EXPECT_FALSE(fs::exists(report() / "runs/00-base-r2/result.json"));
  const auto again = run(e, resuming());
  EXPECT_THAT(starts(), Not(Contains(HasSubstr("-r1")))) << "what is complete counts";
  EXPECT_THAT(starts(), Contains("02-b-r2"));
}

TEST_F(Interleaving, WhatIsWantedWholeIsNotCutByASignal) {
  Experiment e = interleaved({"turnstop", "b"}, 1);
  e.base.train.steps = 10;
  EXPECT_EQ(run(e).signal, SIGINT);
  EXPECT_FALSE(fs::exists(report() / "runs/00-base-r1/result.json")) << "one round claims nothing";
  e = interleaved({"turnstop", "b"}, 3);
  e.base.train.steps = 10;
  e.target_loss = 1;
  EXPECT_EQ(run(e).signal, SIGINT);
  EXPECT_FALSE(fs::exists(report() / "runs/00-base-r1/result.json")) << "a loss is to be reached";
}

TEST_F(Interleaving, ResumeRunsAGroupThatLacksOneAgain) {
  const auto e = interleaved({"a", "turncrash"}, 2);
  run(e);
  const std::string first = group("00-base-r1"), second = group("00-base-r2");
  run(e, resuming());
  EXPECT_THAT(starts(), IsEmpty());
  fs::remove(report() / "runs/01-a-r2/result.json");
  run(e, resuming());
  EXPECT_THAT(starts(), ElementsAre("01-a-r2", "00-base-r2")) << "what crashed in round 1 stays as it is";
  EXPECT_EQ(group("00-base-r1"), first);
  EXPECT_NE(group("00-base-r2"), second);
  EXPECT_EQ(group("00-base-r2"), group("01-a-r2"));
  EXPECT_EQ(parse_json(read_file(report() / "replaced/00-base-r2/result.json"), "old").at("turns"), second)
      << "what was finished is kept";
}

TEST_F(Interleaving, RanksHaveTheTurnTogether) {
  auto e = interleaved({"a"});
  e.parts[0].rungs[0].settings = {{"train", {{"world_size", 2}}}};
  EXPECT_TRUE(run(e).all_ok);
  EXPECT_EQ(group("00-base-r1"), group("01-a-r1"));
  EXPECT_NE(group("01-a-r1"), "");
  auto all = turns();
  ASSERT_EQ(all.size(), 12);
  for (const size_t i : {1, 3, 7, 9}) {  // base, a, a, base, base, ...: both ranks between two of the base
    std::ranges::sort(all.begin() + static_cast<std::ptrdiff_t>(i),
                      all.begin() + static_cast<std::ptrdiff_t>(i) + 2);
    EXPECT_EQ(all[i], "a/0 1") << i;
    EXPECT_EQ(all[i + 1], "a/1 1") << i;
  }
}

TEST_F(Interleaving, OfManyRanksOneThatDiesEndsItsRun) {
  auto e = interleaved({"turncrash", "b"});
  e.parts[0].rungs[0].settings = {{"train", {{"world_size", 2}}}};
  EXPECT_FALSE(run(e).all_ok);
  EXPECT_EQ(status("01-turncrash-r1"), "crashed");
  EXPECT_EQ(status("02-b-r1"), "ok");
}

TEST_F(Interleaving, AnExternalProgramTakesPart) {
  auto e = interleaved({"a"});
  Rung other{.name = "other", .where = "fake.lua:2"};
  const std::string worker = testing::kFakeWorker;
  other.external =
      External{.command = {"sh", "-c", "exec " + worker + " run --spec {spec} --out $(dirname {out})"},
               .interleave = true};
  e.parts[0].rungs.push_back(other);
  run(e);
  EXPECT_THAT(turns(), Contains("other 1"));
  e.parts[0].rungs.back().external->interleave = false;
  run(e);
  EXPECT_THAT(turns(), Not(Contains("other 1")));
}
}  // namespace
}  // namespace optrush
