#pragma once
#include <chrono>

#include "launch/controller.h"
#include "plugin/description.h"
#include "process/signals.h"
#include "report/analysis/analysis.h"
#include "search/stacks.h"

namespace optrush {
/// The present stage was ended by a signal.
struct StageInterrupted {
  std::filesystem::path folder;  ///< of what it has
  int signal = 0;
  size_t finished = 0;  ///< runs of it that have a result
};

/// Answers a search by plans of workers, and by an experiment for each stage, with a report of its own in
/// `folder`/<number of the stage>. Stages that are stored there are not run again where the request resumes.
class StageEvaluator final : public Evaluator {
 public:
  using Clock = std::chrono::steady_clock;
  /// The experiment has an `until`.
  StageEvaluator(const Experiment&, const SearchRequest&, const Stacks&, RunRequest,
                 std::filesystem::path folder, Progress&);

  Forecast forecast(const Picks&) override;
  std::vector<Trial> measure(const Picks& reference, const std::vector<Picks>& stacks) override;
  bool goes_on() override;
  double seconds_left() const;
  /// The time that the last stage still needs until every stack has enough rounds for a claim.
  double seconds_to_decide() const { return to_decide_s_; }
  /// The machine, as described by the first stage; null before.
  const Json& machine() const { return machine_; }

 private:
  Forecast planned(const Picks&);
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
  double fewest_s_ = 0;  ///< of a stage: kMinRounds short rounds of the reference and one more; 0: not known
  double to_decide_s_ = 0;
  Json machine_;
};
}  // namespace optrush
