#pragma once
#include <chrono>

#include "analysis/analysis.h"
#include "launch/controller.h"
#include "plugin/description.h"
#include "process/signals.h"
#include "search/stacks.h"

namespace optrush {
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
