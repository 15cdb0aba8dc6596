#include "launch/interleaving/interleaved_round.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "base/seconds_since.h"
#include "launch/run/result.h"
#include "optrush/error.h"

namespace optrush {
namespace {
using Clock = std::chrono::steady_clock;
constexpr double kShortestTurn = 0.25;
constexpr int64_t kFewestTurns = 4;
constexpr double kSecondsToCut = 10;  ///< after a signal: limit for the present turn and all results
}  // namespace

int64_t steps_of_a_turn(const std::vector<double>& seconds, int64_t steps) {
  double shortest = kShortestTurn;
  for (const double one : seconds)
    if (one > 0) shortest = std::min(shortest, one);
  const auto wanted = static_cast<int64_t>(std::ceil(std::min(kShortestTurn / shortest, 1e9)));
  // At least two short steps, because the first of a turn is not timed unless it is the only one.
  const int64_t most = std::max(steps / kFewestTurns, std::min<int64_t>(2, steps / 2));
  return std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, most));
}

std::vector<size_t> turn_order(size_t members, size_t cycle) {
  std::vector<size_t> order;
  for (size_t i = 0; i < members; ++i) order.push_back((cycle + i) % members);
  return order;
}

std::vector<size_t> start_order(size_t members, int64_t round) {
  std::vector<size_t> order = turn_order(members, 0);
  const int64_t pair = round / 2;
  std::mt19937_64 random(static_cast<uint64_t>(pair));
  for (size_t left = pair > 0 ? members : 0; left > 1; --left)
    std::swap(order[left - 1], order[random() % left]);
  if (round % 2 == 1) std::ranges::reverse(order);
  return order;
}

InterleavedRound::InterleavedRound(const std::vector<Job>& jobs, Terms terms, Runs& runs)
    : terms_(std::move(terms)), runs_(runs), interrupts_(runs.interrupts()) {
  for (const auto& job : jobs) {
    const auto path = sockets_.path() / std::to_string(members_.size());
    members_.push_back({.job = job, .socket = InterleavingSocket(path), .path = path});
  }
}

std::unique_ptr<LiveRun> InterleavedRound::start(const Member& member) {
  if (interrupts_.signal() != 0) return nullptr;
  runs_.forget(member.job);
  auto run = runs_.start(member.job, members_.size() > 1 ? "interleaved" : "",
                         {{"OPTRUSH_TURNS", member.path.string()}});
  if (run && terms_.prepared)
    runs_.starter().prepare(*terms_.prepared, runs_.ledger().run_folder(terms_.prepared->id));
  return run;
}

std::vector<Job> InterleavedRound::conduct() {
  // A run has the turn until it is ready, so that no two runs set up or warm up at the same time.
  for (auto& member : members_) {
    member.run = start(member);
    if (!member.run || !hold(member)) {
      end_all();
      return {};
    }
  }
  const int64_t most = limit();
  const bool alone = members_.size() == 1;
  const int64_t steps = alone && !runs_.may_have_enough() ? most : steps_of_a_turn();
  for (size_t cycle = 0; !alive().empty(); ++cycle) {
    const auto present = alive();
    for (const size_t i : turn_order(present.size(), cycle)) {
      Member& member = *present[i];
      if (!member.run) continue;
      if (const bool ends = member.socket.can_end(); ends && member.steps >= most) {
        member.cut = "time limit";
        member.socket.end();
      } else if (ends && runs_.has_enough(member.job)) {
        member.cut = "target loss";
        member.socket.end();
      } else {
        const int64_t next = ends ? std::min(steps, most - member.steps) : steps;
        member.steps += next;
        member.socket.go(next, alone);
      }
      if (hold(member)) continue;
      if (!cut()) end_all();
      return {};
    }
  }
  return again_;
}

bool InterleavedRound::hold(Member& member) {
  runs_.progress().resume(member.job);
  const auto start = Clock::now();
  while (true) {
    // Before looking at ends of runs, which the signal may have caused.
    if (interrupts_.poll() != 0) return false;
    std::ranges::for_each(members_, [&](Member& one) { look_after(one); });
    if (interrupts_.signal() != 0) return false;
    if (!member.run || member.socket.waits()) break;
    const double left = member.job.spec.timeout_s - member.held_s - seconds_since(start);
    if (left <= 0) {
      RunResult late = member.run->time_out();
      if (member.job.external && member.steps > 0)
        late.reason +=
            "\nit kept its turn: before each step, report the last one and wait for the next turn "
            "(docs/guides/running.md)";
      conclude(member, std::move(late));
      break;
    }
    runs_.tick();
    interrupts_.wait(std::min(member.run->period(), tick_within(left)), member.socket.descriptors());
  }
  member.held_s += seconds_since(start);
  return true;
}

void InterleavedRound::look_after(Member& member) {
  if (!member.run) return;
  try {
    member.socket.poll();
  } catch (const Error& e) {
    member.run->interrupt();
    return conclude(member, RunResult(failed(e, e.message() + "\n" + e.cure())));
  }
  if (auto result = member.run->poll()) conclude(member, std::move(*result));
}

void InterleavedRound::conclude(Member& member, RunResult result) {
  member.run.reset();
  if (result.status == Status::oom && !alive().empty()) {
    again_.push_back(member.job);
    return runs_.abandoned(member.job);
  }
  if (result.ok() && member.steps > 0 && members_.size() > 1) result.turns = terms_.id;
  if (result.ok() && !member.cut.empty()) result.cut = member.cut;
  runs_.ended(member.job, result);
}

/// The number of timed steps for every run of this round that can be shortened.
int64_t InterleavedRound::limit() {
  std::map<int64_t, RunCost> costs;
  for (const Member* member : alive())
    costs[member->job.spec.variant] = {.start = member->held_s,
                                       .step = member->socket.step_seconds(),
                                       .steps = member->job.spec.train.steps,
                                       .whole = !member->socket.can_end()};
  int64_t all = 1;
  for (const auto& [variant, cost] : costs) all = std::max(all, cost.steps);
  if (costs.empty()) return all;
  runs_.starter().wait_until_prepared();
  return std::clamp<int64_t>(terms_.steps(costs), 1, all);
}

/// Waits for the present turn and ends every run with the steps that it has made. Returns false if these are
/// too few, if it takes too long, or after another signal.
bool InterleavedRound::cut() {
  const auto start = Clock::now();
  const auto wait_until = [&](auto&& done) {
    while (true) {
      std::ranges::for_each(members_, [&](Member& one) { look_after(one); });
      if (std::ranges::all_of(alive(), done)) return true;
      if (seconds_since(start) > kSecondsToCut) return false;
      if (interrupts_.wait(std::chrono::milliseconds(20))) return false;
    }
  };
  const auto counts = [](const Member* member) {
    return member->socket.can_end() && member->steps >= kFewestSteps;
  };
  if (members_.size() < 2 || !terms_.counts_when_cut || !std::ranges::all_of(alive(), counts)) return false;
  if (!wait_until([](const Member* member) { return member->socket.waits(); })) return false;
  for (Member* member : alive()) {
    member->cut = "interrupt";
    member->socket.end();
  }
  return wait_until([](const Member*) { return false; });
}

void InterleavedRound::end_all() {
  for (auto& member : members_) {
    if (!member.run) continue;
    if (auto result = member.run->interrupt()) {
      conclude(member, std::move(*result));
    } else {
      member.run.reset();
      runs_.abandoned(member.job);
    }
  }
}

std::vector<InterleavedRound::Member*> InterleavedRound::alive() {
  std::vector<Member*> all;
  for (auto& member : members_)
    if (member.run) all.push_back(&member);
  return all;
}

int64_t InterleavedRound::steps_of_a_turn() {
  std::vector<double> seconds;
  int64_t steps = std::numeric_limits<int64_t>::max();
  for (const Member* member : alive()) {
    seconds.push_back(member->socket.step_seconds());
    steps = std::min(steps, member->job.spec.train.steps);
  }
  return optrush::steps_of_a_turn(seconds, steps);
}
}  // namespace optrush
