#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "analysis/analysis.h"
#include "analysis/numbers/verdict.h"

namespace optrush {
/// Speed and memory of a stack, a rung or a program relative to another one. The analysis must outlive it.
struct Relation {
  std::string name, than;    ///< as in a sentence
  const Row* row = nullptr;  ///< null: a rung of an ablation
  const Row* other = nullptr;
  std::optional<Ratio> speed;    ///< ratio of tokens/s
  std::optional<double> memory;  ///< ratio of peak memory
  std::string condition;         ///< why the problems differ; empty: like for like
  bool worse = false;            ///< it trains worse
};
using Relations = std::vector<Relation>;
Relation relation_of(const Analysis&, const Row&, const Comparison&);

// The claims. Each has one sentence, long as a finding or short as a clause of the headline.

/// "the stack up to A trains 9,526 tokens/s, 2.21x [2.05, 2.38] as fast as the base, with 56 % less memory"
struct Trains {
  Relation relation;
  bool absolute = false;  ///< states tokens/s
  std::string remark;     ///< at the end of the sentence
};
/// "the stack up to A takes 129 MiB, 64 % less than the base, and trains 1.81x [1.72, 1.91] as fast"
struct Takes {
  Relation relation;
};
/// "A (1.49x [1.35, 1.65]) and B (1.41x [1.33, 1.50]) make training faster". Without relations: none does.
struct Rungs {
  Outcome outcome = Outcome::faster;
  Relations relations;
  std::string before;
  bool most = false;  ///< the first gains most
};
/// "4 ranks train 3.50x [3.41, 3.59] as many tokens/s as 1 rank (replicas, weak scaling, 88 % efficient)"
struct Scales {
  int64_t ranks = 1, from = 1;
  Ratio speed;
  std::string title;
  std::string efficiency;               ///< "88 %"; "—": the ranks share the hardware
  std::optional<double> exposed_share;  ///< of a step
};
/// "of 3 published speedups 2 hold here: A (1.14x [1.11, 1.18], published 1.12x, holds), ..."
struct Holds {
  struct Figure {
    Relation measured;
    double published = 1;
    bool holds() const { return measured.speed->claim() && (measured.speed->value > 1) == (published > 1); }
  };
  std::vector<Figure> figures;
};
/// Names with a number, for example a loss.
using Numbers = std::vector<std::pair<std::string, double>>;
/// "the validation loss ends at 3.2140 (LoRA) and 3.2200 (base)"
struct Levels {
  std::string before;
  Numbers rows;
  std::string after;
  bool shares = false;  ///< of 1
};
/// "against 'level 0', level 1 changes the peak memory by -22.0 %"
struct Changes {
  std::string choice, against;
  struct Quantity {
    std::string title;
    double least = 1, most = 1;  ///< ratios over the combinations
  };
  std::vector<Quantity> quantities;
};
/// "all 8 stacks learn one batch: their last losses are at most 0.0006 (required: below 0.1)"
struct Learns {
  double required = 0;
  Numbers learned, failed;  ///< last losses
};
/// "A (12.0 s, 80 steps) and B (20.0 s, 100 steps) reach a loss of 2.5; not in every round: C (2.900)"
struct Reaches {
  double target = 0;
  Rows there;                   ///< by time
  Numbers others;               ///< last losses, the nearest first
  bool in_some_rounds = false;  ///< one of the others reaches it in some rounds
};
/// "A reaches a loss of 2.5 1.05x [1.02, 1.08] as soon as the base, at 0.97x its tokens/s"
struct Exchange {
  Relation relation;
  Ratio soon;
  double target = 0;
};
/// "over 3 seeds, the last loss of A is +0.0120 [+0.0040, +0.0200] from base"
struct Differs {
  std::string name, than;
  Ratio perplexity;
};
/// The result of a search. It quotes no speed of a stage, because the stack was chosen by it; the claims on
/// the final ladder do.
struct Finds {
  const Tried* tried = nullptr;
};
/// "A trains worse than B: over the last third of equally many tokens its mean training loss is 3.3, not 3.2"
struct TrainsWorse {
  std::string name, than;
  Worse losses;
};
/// "A and B ran out of memory"
struct Ended {
  Status status = Status::failed;
  std::vector<std::string> names;
};
/// The reason why there is no claim, and the ratios so far.
struct Open {
  std::string text;
};

/// How much a claim matters in the headline; less important ones are dropped first.
enum class Weight : uint8_t { answer, gain, failure, other, trade, open, detail };

struct Claim {
  Weight weight = Weight::detail;
  std::variant<Trains, Takes, Rungs, Scales, Holds, Levels, Changes, Learns, Reaches, Exchange, Differs,
               Finds, TrainsWorse, Ended, Open>
      what;
};
using Claims = std::vector<Claim>;
enum class Form : uint8_t { finding, clause };
/// Without a capital letter and a full stop.
std::string text_of(const Claim&, Form);
/// "1.51x [1.50, 1.52] as fast as base"
std::string as_fast(const Relation&, Form);
/// "16 % less memory"; "" if it is about equal or not known.
std::string memory_change(const std::optional<double>& ratio);
/// "ran out of memory"
std::string what_happened(Status);
}  // namespace optrush
