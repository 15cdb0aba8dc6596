#pragma once
#include <compare>
#include <string>
#include <vector>

namespace optrush {
/// The `choice`-th alternative of the `axis`-th axis. Of an axis a stack holds one alternative at most.
struct Pick {
  size_t axis = 0, choice = 0;
  auto operator<=>(const Pick&) const = default;  // NOLINT(modernize-use-nullptr): of what clang makes of it
};
/// Of different axes, in order of stacking.
using Picks = std::vector<Pick>;

/// Known properties of a stack without a run.
struct Forecast {
  enum class End : uint8_t {
    fits,
    refused,   ///< its parts don't go together, or the machine lacks something
    too_large  ///< its predicted peak is above the limit
  };
  End end = End::fits;
  std::string reason;     ///< of an end that is not `fits`
  double peak_bytes = 0;  ///< predicted; 0: unknown
};

/// A stack measured beside another one.
struct Trial {
  bool ok = false;                ///< it ran, and trains as it should
  std::string reason;             ///< where it is not ok
  std::string said;               ///< for readers: "1.21x [1.18, 1.24], faster"
  double speed = 0;               ///< tokens/s over those of the reference
  bool faster = false;            ///< that can be claimed
  bool undecided = false;         ///< enough rounds, and it may be faster or slower
  bool too_short = false;         ///< time was out before anything could be claimed
  size_t rounds = 0;              ///< together with the reference
  bool reference_failed = false;  ///< the reference does not train as it should, so nothing is known
};

/// The interface of a search to planning and measurement.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  virtual Forecast forecast(const Picks&) = 0;
  /// Runs stacks beside `reference`, all in the same rounds.
  virtual std::vector<Trial> measure(const Picks& reference, const std::vector<Picks>& stacks) = 0;
  /// Whether there is time for another stage from which a claim can come.
  virtual bool goes_on() = 0;
};

/// A stack that was considered, and what became of it.
struct Considered {
  Picks stack;
  std::string reason;  ///< why it was not run, or does not count; empty: see `trial`
  Trial trial;         ///< over the reference of its stage
};
struct SearchStage {
  Picks reference;
  std::vector<Considered> stacks;
};
struct Found {
  Picks best;                       ///< what pays most first
  std::vector<SearchStage> stages;  ///< everything that was tried
  bool finished = true;             ///< false: time was out before no move was left
  bool answered = true;             ///< false: time was out before anything could be claimed
};

/// Looks for the fastest stack: first each alternative alone; then all that pay, and from there moves (one
/// part off, on, or exchanged for another alternative; for what does not fit, together with a part that saves
/// memory; or everything on that was faster alone, claimed or not) until none can be claimed to be faster.
/// A stage that could claim nothing for want of time is the last: no other one can be built on it.
/// About as many stacks are run in a stage as there are alternatives, where a grid would run the product of
/// all axes. `choices` has the number of alternatives of each axis.
Found search(const std::vector<size_t>& choices, Evaluator&);
}  // namespace optrush
