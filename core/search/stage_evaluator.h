#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "analysis/analysis.h"
#include "experiment/experiment.h"
#include "launch/controller.h"
#include "plugin/description.h"
#include "process/signals.h"
#include "search/search.h"

namespace optrush {
/// Maps picks to stacks: rungs on top of an experiment's base.
class Stacks {
 public:
  Stacks(const Experiment& experiment, const SearchRequest& request)
      : experiment_(experiment), request_(request) {}

  /// The number of alternatives of each axis.
  std::vector<size_t> choices() const;
  const std::string& name(const Pick& pick) const { return rung(pick).name; }
  /// For example "bf16 + fused AdamW"; "base" for an empty stack.
  std::string name(const Picks&) const;
  /// The difference of two stacks: "+ bf16, - checkpointing".
  std::string change(const Picks& from, const Picks& to) const;
  /// Throws an Error if the rungs can't be stacked together.
  Variant variant(const Picks&) const;

 private:
  const Rung& rung(const Pick& pick) const { return request_.axes.at(pick.axis).at(pick.choice); }

  const Experiment& experiment_;
  const SearchRequest& request_;
};

/// Thrown when a signal ended the present stage.
struct StageInterrupted {
  std::filesystem::path folder;  ///< folder of the stage
  int signal = 0;
};

/// Evaluates stacks by plans of workers and by one experiment per stage, whose report is in `folder`/<number
/// of the stage>. A request that resumes does not repeat stored stages.
class StageEvaluator final : public Evaluator {
 public:
  using Clock = std::chrono::steady_clock;
  /// The experiment must have an `until`.
  StageEvaluator(const Experiment&, const SearchRequest&, const Stacks&, RunRequest,
                 std::filesystem::path folder, Progress&);

  Forecast forecast(const Picks&) override;
  std::vector<Trial> measure(const Picks& reference, const std::vector<Picks>& stacks) override;
  bool goes_on() override;
  double seconds_left() const;
  /// Seconds that the last stage still needs until every stack has enough rounds for a claim.
  double seconds_to_decide() const { return to_decide_s_; }
  /// The machine's description from the first stage; null before.
  const Json& machine() const { return machine_; }

 private:
  Experiment stage(const Picks& reference, const std::vector<Picks>& stacks) const;
  double seconds_for_stages() const;
  Analysis run(const Experiment& stage, bool again);

  const Experiment& experiment_;
  const SearchRequest& request_;
  const Stacks& stacks_;
  RunRequest run_;
  std::filesystem::path folder_;
  Progress& progress_;
  Catalogue catalogue_;
  Clock::time_point start_ = Clock::now();
  int64_t stages_ = 0;
  /// Seconds of the shortest stage: kMinRounds short rounds of the reference and one other stack; 0: not
  /// known.
  double fewest_s_ = 0;
  double to_decide_s_ = 0;
  Json machine_;
};
}  // namespace optrush
