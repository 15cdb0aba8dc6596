// A controller without processes: the actions of next() are performed on a ledger by making up results.
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "analysis/checked_rows.h"
#include "fixture.h"
#include "launch/ledger/next.h"

namespace optrush::testing {
class LedgerTest : public Launch {
 protected:
  /// A result like a worker's: its losses fall, and each step takes 10 ms.
  static RunResult ok_result(const Job& job) {
    RunResult result;
    const TrainSpec& train = job.spec.train;
    for (int64_t i = 0; i < train.warmup + train.steps; ++i) {
      StepResult step{.step = i, .timed = i >= train.warmup};
      step.loss = 5 - 0.1 * static_cast<double>(i);
      step.grad_norm = 1;
      step.trained = step.tokens = step.positions = 128;
      step.seconds = 0.01;
      step.phases = {{"forward", 0.005}};
      result.steps.push_back(step);
    }
    result.tokens_per_second = result.trained_tokens_per_second = 12800;
    result.step_seconds = 0.01;
    result.device = "fake";
    return result;
  }
  static RunResult failed_result(Status status) {
    return RunResult(BadEnd{status, "made up", ErrorCode::crashed});
  }

  /// The course of a start: "plan", "round 1", "run 00-base-r1" ... Runs that are not in `ends` end well.
  struct Start {
    std::function<void(const Job&, RunResult&)> change = {};
    std::map<std::string, Status> ends = {};  ///< by the run's id
    std::string killed_before = {};           ///< the action before which the start ends
    double step_seconds = 0;                  ///< of the time limit
    std::set<std::string> unplanned = {};     ///< rungs that the worker refuses
  };

  std::vector<std::string> course(const Experiment& e, const RunRequest& request) {
    return course(e, request, Start{});
  }
  std::vector<std::string> course(const Experiment& e, const RunRequest& request, const Start& start) {
    const Expanded expanded(e);
    Ledger ledger(expanded, request);
    notes_.clear();
    std::vector<std::string> course;
    double seconds = 0, round_began = 0;
    const auto run = [&](const Job& job) {
      const TrainSpec& train = job.spec.train;
      const Round& round = *ledger.round();
      seconds += start.step_seconds *
                 static_cast<double>(train.warmup + std::min(train.steps, round.steps.value_or(train.steps)));
      ledger.start(job);
      const auto end = start.ends.find(job.id);
      RunResult result = end == start.ends.end() ? ok_result(job) : failed_result(end->second);
      if (start.change) start.change(job, result);
      ledger.finish(job, std::move(result));
    };
    while (course.size() < 1000) {
      const Action action = next(ledger, request, {.seconds = seconds, .free_bytes = 0});
      const std::string name = name_of(action);
      if (name == start.killed_before) break;
      if (name != "end") course.push_back(name);
      if (name == "inspect") {
        ledger.describe(Json::object());
        ledger.begin_report();
      } else if (name == "plan") {
        make_plans(ledger, start.unplanned);
      } else if (const auto* begin = std::get_if<BeginRound>(&action)) {
        ledger.begin_round(begin->round);
        round_began = seconds;
      } else if (const auto* probe = std::get_if<Probe>(&action)) {
        ledger.probe(probe->rounds);
      } else if (const auto* group = std::get_if<RunGroup>(&action)) {
        ledger.begin_interleaving(group->jobs);
        for (const Job& job : group->jobs) {
          if (start.ends.contains(job.id) && start.ends.at(job.id) == Status::oom) {
            ledger.start(job);
            ledger.abandon(job);
            ledger.run_alone(job);
          } else {
            run(job);
          }
        }
        ledger.end_interleaving();
      } else if (const auto* one = std::get_if<RunOne>(&action)) {
        run(one->job);
      } else if (std::get_if<EndRound>(&action) != nullptr) {
        ledger.end_round(seconds - round_began);
      } else if (const auto* check = std::get_if<CheckGate>(&action)) {
        check_gate(ledger, check->last, course, run);
      } else {
        ledger.end();
        break;
      }
      for (auto& note : ledger.take_notes()) notes_.push_back(std::move(note));
    }
    return course;
  }

  static void make_plans(Ledger& ledger, const std::set<std::string>& unplanned = {}) {
    NoPlans failures;
    for (const Variant& variant : ledger.variants()) {
      if (unplanned.contains(variant.name)) {
        failures[variant.index].failure = {Status::failed, "refused"};
        continue;
      }
      if (!ledger.schedule().wanted(variant)) continue;
      Plan plan{.problem = variant.spec.train};
      plan.problem.global_batch = variant.spec.train.micro_batch;
      ledger.outline().plans[static_cast<size_t>(variant.index)] = plan;
    }
    ledger.plan(failures);
  }

  std::vector<std::string> notes_;  ///< notes of the last course

 private:
  static std::string ids(const std::vector<Job>& jobs) {
    std::string text;
    for (const Job& job : jobs) text += " " + job.id;
    return text;
  }
  static std::string name_of(const Action& action) {
    struct Name {
      std::string operator()(const Inspect&) const { return "inspect"; }
      std::string operator()(const MakePlans&) const { return "plan"; }
      std::string operator()(const BeginRound& begin) const {
        const Round& round = begin.round;
        if (round.over) return "over";
        return "round " + std::to_string(round.number + 1) + (round.paced && round.steps ? ", limited" : "");
      }
      std::string operator()(const Probe& probe) const { return "probe " + std::to_string(probe.rounds); }
      std::string operator()(const RunGroup& group) const { return "group" + ids(group.jobs); }
      std::string operator()(const RunOne& one) const {
        return "run " + one.job.id + (one.in_turns ? ", in turns" : "") +
               (one.prepared ? ", prepares " + one.prepared->id : "");
      }
      std::string operator()(const EndRound&) const { return "end"; }
      std::string operator()(const CheckGate& check) const { return check.last ? "last gate" : "gate"; }
      std::string operator()(const Stop&) const { return "stop"; }
    };
    return std::visit(Name(), action);
  }
  static void check_gate(Ledger& ledger, bool last, std::vector<std::string>& course,
                         const std::function<void(const Job&)>& run) {
    for (size_t i = 0; i < ledger.variants().size();) {
      const Stored stored = ledger.stored();
      const VariantRuns runs(stored.variants, stored.runs);
      CheckedRows rows(stored);
      for (size_t below = 0; below < i; ++below) rows.update(stored.variants[below], runs);
      const auto jobs = gate_jobs(ledger, rows.update(stored.variants[i], runs), rows.usable(), last);
      if (jobs.empty()) ++i;
      for (const Job& job : jobs) {
        if (ledger.accept(job) != nullptr) continue;
        course.push_back("gate run " + job.id);
        run(job);
      }
    }
    ledger.check_gate();
  }
};
}  // namespace optrush::testing
