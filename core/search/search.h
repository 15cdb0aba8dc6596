#pragma once
#include <compare>
#include <string>
#include <vector>

namespace optrush {
/// Alternative `choice` of axis `axis`. A stack has at most one alternative per axis.
struct Pick {
  size_t axis = 0, choice = 0;
  auto operator<=>(const Pick&) const = default;  // NOLINT(modernize-use-nullptr): of what clang makes of it
};
/// Picks of different axes, in the order of stacking.
using Picks = std::vector<Pick>;

/// What is known about a stack without a run.
struct Forecast {
  enum class End : uint8_t {
    fits,
    refused,   ///< its parts don't work together, or the machine lacks something
    too_large  ///< its predicted peak is above the limit
  };
  End end = End::fits;
  std::string reason;     ///< why it does not fit
  double peak_bytes = 0;  ///< predicted peak; 0: not known
};

/// The measurement of a stack relative to another one.
struct Trial {
  bool ok = false;                ///< it ran and trains correctly
  std::string reason;             ///< why it is not ok
  std::string result;             ///< text for readers: "1.21x [1.18, 1.24], faster"
  double speed = 0;               ///< tokens/s relative to the reference
  bool faster = false;            ///< it can be claimed to be faster
  bool too_short = false;         ///< the time ended before there were enough rounds
  size_t rounds = 0;              ///< number of rounds with the reference
  bool reference_failed = false;  ///< the reference does not train correctly, so nothing is known
};

/// The interface of a search to planning and measurement.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  virtual Forecast forecast(const Picks&) = 0;
  /// Runs stacks beside `reference`, all in the same rounds.
  virtual std::vector<Trial> measure(const Picks& reference, const std::vector<Picks>& stacks) = 0;
  /// Whether there is time for another stage that can lead to a claim.
  virtual bool goes_on() = 0;
};

/// A considered stack and its result.
struct Considered {
  Picks stack;
  std::string reason;  ///< why it was not run or does not count; empty: see `trial`
  Trial trial;         ///< relative to the reference of its stage
};
struct SearchStage {
  Picks reference;
  std::vector<Considered> stacks;
};
struct Found {
  Picks best;                       ///< the largest gain first
  std::vector<SearchStage> stages;  ///< everything that was considered
  bool finished = true;             ///< false: the time ended while moves were left
  bool answered = true;             ///< false: the time ended before anything could be claimed
};

/// Searches the fastest stack. The first stage measures each alternative alone. The second starts from all
/// alternatives that pay. Each further stage measures moves from the best stack: one part added, removed or
/// exchanged; a part that does not fit together with one that saves memory; or all parts that were faster
/// alone, claimed or not. The search ends when no move can be claimed to be faster, or after a stage without
/// a claim for want of time. `choices`: number of alternatives of each axis.
Found search(const std::vector<size_t>& choices, Evaluator&);
}  // namespace optrush
