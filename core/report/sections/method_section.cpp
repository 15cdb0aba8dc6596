#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "analysis/numbers/format.h"
#include "analysis/quantities.h"
#include "base/text.h"
#include "report/sections/document.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
/// Half of the widest interval of a speedup, on a logarithmic scale; 0: there is none.
double widest_interval(const Analysis& a) {
  double widest = 0;
  for (const Row& row : a.rows)
    for (const auto& speed : {row.previous.speed, row.base.speed})
      if (row.ok() && speed && !speed->same_run && speed->interval)
        widest = std::max(widest, std::log(speed->interval->high / speed->interval->low) / 2);
  return widest;
}

/// For example "1, 2 and 4".
std::string listed(const auto& numbers) {
  std::string text;
  for (const int64_t number : numbers)
    text += (text.empty() ? "" : number == *numbers.rbegin() ? " and " : ", ") + std::to_string(number);
  return text;
}

/// ", with the seeds 1, 2 and 3"; "" if all rounds have one.
std::string seeds_text(const Experiment& experiment) {
  if (experiment.seeds.empty()) return {};
  return (experiment.seeds.size() == 1 ? ", with the seed " : ", with the seeds ") + listed(experiment.seeds);
}

/// The number of rounds, and its reason.
std::string rounds_text(const Analysis& a) {
  const auto& until = a.experiment.until;
  if (!until) {
    const auto all = static_cast<size_t>(a.experiment.rounds);
    const bool complete = std::ranges::all_of(
        a.rows, [&](const Row& row) { return row.same_as >= 0 || row.rounds.size() == all; });
    return std::string("Each rung ") + (complete ? "ran " : "was planned to run ") +
           (all == 1 ? "once" : std::to_string(all) + " times") + seeds_text(a.experiment);
  }
  size_t least = std::numeric_limits<size_t>::max(), most = 0;
  for (const Row& row : a.rows)
    if (row.ok()) {
      least = std::min(least, row.rounds.size());
      most = std::max(most, row.rounds.size());
    }
  std::string text = "Rungs ran until the intervals of their speedups were within ±" +
                     percent(until->within) + (until->race ? " or decided the race" : "") + ", for at most " +
                     duration(until->at_most_s);
  if (most > 0) text += ": " + (least == most ? "" : std::to_string(least) + " to ") + counted(most, "round");
  const double widest = widest_interval(a);
  return text + (widest > until->within ? "; the widest interval is ±" + percent(widest) : "");
}

/// Rounds that ended before their last step, and their number of steps; empty: none.
std::vector<std::string> cuts_text(const Analysis& a) {
  std::map<std::pair<std::string, int64_t>, std::set<int64_t>> rounds;  // by (cause, steps)
  for (const StoredRun& run : a.runs)
    if (!run.result.cut.empty() && run.result.cut != "target loss" && run.spec.purpose == Purpose::measure)
      rounds[{run.result.cut, std::ssize(run.result.steps) - run.spec.train.warmup}].insert(run.spec.round +
                                                                                            1);
  std::vector<std::string> lines;
  for (const auto& [key, numbers] : rounds) {
    const auto& [cause, steps] = key;
    const bool limit = cause == "time limit";
    lines.push_back((limit ? "The time limit was too short for " + std::to_string(kMinRounds) +
                                 " rounds of " + counted(a.experiment.base.train.steps, "step") + ". "
                           : std::string("An interrupt ended a round early. ")) +
                    (numbers.size() == 1 ? "Round " : "Rounds ") + listed(numbers) + " made " +
                    counted(steps, "step") + " per run" + "." +
                    (limit ? " The base did not run again at the end, so there is no drift." : ""));
  }
  std::vector<std::string> left_out;
  bool claims = false;
  for (const Row& row : a.rows) {
    if (!row.ok() || row.variant == 0 || row.same_as >= 0) continue;
    (row.rounds.size() < kMinRounds ? left_out.push_back(row.name) : void(claims = true));
  }
  if (a.experiment.until && claims && !left_out.empty())
    lines.push_back("These rungs have fewer than " + std::to_string(kMinRounds) +
                    " rounds: " + listed_names(left_out) +
                    ". If the time limit is too short for all rungs, those that gained least in the first "
                    "rounds are left out.");
  return lines;
}

/// States if a run may end before its last step.
std::string timed_steps_text(const Analysis& a) {
  const RunSpec& base = a.experiment.base;
  const bool may_end_early = base.train.epochs > 0 || base.validate.patience > 0;
  if (only_epochs(base.train)) return "up to " + length_of(base.train);
  return std::string(may_end_early ? "up to " : "") + counted(base.train.steps, "timed step");
}
}  // namespace

Section method_section(const Analysis& a) {
  Section section{.title = "How it was measured", .lead = rounds_text(a) + "."};
  const TrainSpec& train = a.experiment.base.train;
  const Standard& standard = a.standard;
  const std::string level = percent(1 - standard.error, 0) +
                            (standard.intervals > 1 ? " for all " + std::to_string(standard.intervals) +
                                                          " intervals of the report together"
                                                    : "");
  const bool interleaved = std::ranges::any_of(a.rows, &Row::was_interleaved);
  section.bullets = {
      "Each run is a new process. A round runs every rung once.",
      "One run is one sample of tokens/s: the tokens per step divided by the median time of " +
          timed_steps_text(a) + " after " + counted(train.warmup, "warm-up step") +
          ". If the steps of a run differ in work, as with documents, it is the tokens of all timed steps "
          "divided by their time." +
          (interleaved
               ? " If interleaved rungs take turns of several steps, the first step of a turn is not timed."
               : ""),
      "A speedup is the geometric mean over rounds of the ratio of two rungs' tokens/s in the same round." +
          std::string(interleaved ? " For interleaved rungs, the ratio of a round is the median of the "
                                    "ratios of the steps that both timed."
                                  : "") +
          " In brackets is the paired t interval of the log ratios, at a level of " + level +
          ". Fewer than " + std::to_string(kMinRounds) + " rounds make no claim.",
      "An interval without 1.00 shows a difference. \"No difference\" means that two one-sided tests, each "
      "with the interval's error, rule out any difference above the bound that the finding states. It is at "
      "most " +
          percent(standard.alike, 0) + ". \"Undecided\" means that there may or may not be a difference.",
      "Tokens/s count processed tokens. Prompts count, although they have no loss. Padding never counts.",
      "MFU counts 6P FLOPs per token and 12·L·heads·head_dim FLOPs per pair of positions that attention "
      "relates: pairs in one document and, in layers with a sliding window, in the window. Without windows, "
      "that is 6P + 12·L·S·heads·head_dim per token of a full sequence. The causal MFU counts half of the "
      "pairs.",
      "P is the number of parameters in matrix products, without the input embedding unless it is tied. Of a "
      "mixture of experts, it counts those that a token passes. Frozen parameters count 4P.",
      "HFU counts the FLOPs that were executed, including padding and recomputation. MFU and HFU are FLOPs "
      "per token times tokens/s, divided by the peak of the hardware that the rung uses."};
  // A program's model is not known, so its report has no utilization.
  if (a.experiment.program)
    std::erase_if(section.bullets, [](const std::string& bullet) {
      return bullet.find("FLOPs") != std::string::npos || bullet.starts_with("P is ");
    });
  auto cuts = cuts_text(a);
  if (a.experiment.stop_behind > 0)
    cuts.push_back("A run ended at the target loss of " + exact_number(a.experiment.target_loss) +
                   ", or when it had trained " + exact_number(a.experiment.stop_behind) +
                   " times as long as the first run of its round that reached this loss.");
  if (!a.experiment.seeds.empty())
    cuts.push_back(
        "All runs of a round have the same seed, and so the same initial weights and order of data. Ratios "
        "and differences are paired by seed, and their intervals are intervals over seeds. The check of "
        "losses compares runs of seed " +
        std::to_string(a.experiment.seeds.front()) + ".");
  section.bullets.insert(section.bullets.begin() + 1, cuts.begin(), cuts.end());
  return section;
}
}  // namespace optrush
