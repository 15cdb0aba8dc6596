// Random experiments with synthetic numbers. A seed gives the same experiment on every machine.
#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "report_fixture.h"

namespace optrush::test {
/// Names of rungs.
inline const std::vector<std::string> kNames = {"alfa", "bravo",   "charlie", "delta",
                                                "echo", "foxtrot", "golf",    "hotel"};

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  bool in(int of) { return up_to(of) == 0; }
  int up_to(int of) { return std::uniform_int_distribution(0, of - 1)(random_); }
  double between(double low, double high) { return std::uniform_real_distribution(low, high)(random_); }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[static_cast<size_t>(up_to(static_cast<int>(list.size())))];
  }

 private:
  std::mt19937_64 random_;
};

/// Draws the speed, scatter, memory and end of a rung.
inline void draw_outcome(Outcome& outcome, int64_t rounds, Dice& dice) {
  outcome.tokens_per_second = dice.in(3) ? 1000 : 1000 * dice.between(0.6, 1.8);
  outcome.scatter = dice.of(std::vector{0.0, 0.002, 0.004, 0.02, 0.1, 0.3});
  outcome.peak_bytes = static_cast<double>(1 << 30) * dice.of(std::vector{1.0, 1.0, 0.6, 1.5});
  if (dice.in(4)) outcome.rounds = 1 + dice.up_to(static_cast<int>(rounds));
  if (dice.in(6)) {
    outcome.status = dice.of(std::vector<std::string>{"oom", "failed", "crashed", "timeout", "skipped"});
    outcome.reason = "by the dice";
    if (dice.in(3)) outcome.bad_round = dice.up_to(static_cast<int>(rounds));
  }
  if (dice.in(10)) outcome.loss_error = 0.5;
  if (dice.in(12)) outcome.has_plan = false;
}

/// A ladder, an ablation or a grid with rungs that pay, cost, fail, break, tie or lack rounds.
inline SyntheticReport random_report(uint64_t seed) {
  Dice dice(seed);
  SyntheticReport report("dice", dice.of(std::vector<int64_t>{1, 2, 3, 3, 4, 6}));
  if (dice.in(2)) report.experiment.until = Until{.within = 0.03, .at_most_s = 100};
  report.equals_run_once = dice.in(2);
  std::vector<Rung> rungs;
  const int count = 1 + dice.up_to(6);
  for (int i = 0; i < count; ++i) {
    const std::string& name = kNames[static_cast<size_t>(i)];
    rungs.push_back(rung(name, name));
    if (dice.in(10)) rungs.back().settings["train"]["micro_batch"] = 16;
    if (dice.in(8)) rungs.back().settings["model"]["n_experts"] = 2 + i;
  }
  // An external program at a random place.
  if (dice.in(4)) {
    Rung program = setting("program", Json::object());
    program.external = External{.command = {"train"}};
    rungs.insert(rungs.begin() + dice.up_to(count + 1), program);
  }
  const int form = dice.up_to(4);
  if (form == 0 && count > 1) {
    report.experiment.parts.push_back({.arrangement = Arrangement::ablation, .rungs = rungs});
  } else if (form == 1 && count > 1) {
    const auto half = rungs.begin() + count / 2;
    Rung plain = setting("plain", Json::object());
    std::vector<Rung> one(rungs.begin(), half), other(half, rungs.end());
    if (dice.in(2)) one.insert(one.begin(), plain);
    report.experiment.parts.push_back({.arrangement = Arrangement::grid, .axes = {one, other}});
  } else {
    if (dice.in(3))
      for (Rung& each : rungs) each.over = "base";
    report.ladder(rungs);
  }
  for (const Variant& variant : expand(report.experiment)) {
    if (variant.index == 0 && !dice.in(6)) continue;
    draw_outcome(report[variant.name], report.experiment.rounds, dice);
  }
  return report;
}
}  // namespace optrush::test
