#include "experiment/gate.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

namespace optrush {
/// Every tolerance of the project: the largest relative difference of two losses at one step. Curves drift
/// apart as updates feed differences back; these hold for the tens of steps that a run has.
double tolerance_of(Effect effect, Arithmetic arithmetic) {
  struct Line {
    Effect effect;
    double fp64, fp32, reduced;
  };
  static constexpr Line kTable[] = {
      // The same operations in the same order give the same bits in every arithmetic.
      {Effect::exact, 0, 0, 0},
      // Unit roundoff (1e-16, 6e-8, 4e-3), grown by a dozen AdamW steps, averaged over thousands of tokens.
      {Effect::rounding, 1e-9, 1e-4, 5e-3},
      // bf16 keeps 8 bits, 0.4 % an operation, and fp8 4, which came to 0.04 % and 0.8 % of the loss after
      // ten
      // steps of a tiny model. A wrong mask shows far above 2 %; a scale that is lost in every linear need
      // not
      // in so few steps, so `optrush check` compares gradient norms as well.
      {Effect::precision, 2e-2, 2e-2, 2e-2},
      // At an equal global batch another split only sums in another order.
      {Effect::batch, 1e-9, 1e-4, 5e-3},
      // Compared with its own plain form, whose operations come in another order.
      {Effect::model, 1e-9, 1e-4, 5e-3},
  };
  const Line& line =
      *std::find_if(std::begin(kTable), std::end(kTable), [&](const Line& l) { return l.effect == effect; });
  return arithmetic == Arithmetic::fp64   ? line.fp64
         : arithmetic == Arithmetic::fp32 ? line.fp32
                                          : line.reduced;
}

namespace {
/// A falling loss: the last third of the curve lies below the first, but for this many standard errors of
/// batches that differ more than a short run learns.
constexpr double kRiseInStandardErrors = 2;

std::string scientific(double value) {
  std::array<char, 32> text{};
  return {text.data(),
          std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific, 1).ptr};
}

struct Worst {
  double difference = 0;
  int64_t step = -1;
};

/// Largest relative difference over the steps that both have; not finite counts as infinite.
Worst worst_difference(const LossCurve& a, const LossCurve& b) {
  Worst worst;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    double d = a[i] == b[i] ? 0 : std::abs(a[i] - b[i]) / std::abs(b[i]);
    if (std::isnan(d)) d = std::numeric_limits<double>::infinity();
    if (worst.step < 0 || d > worst.difference) worst = {d, static_cast<int64_t>(i)};
  }
  return worst;
}

/// Equal bits are asked for only where the reference repeats its own: on a GPU a backward may add up in
/// another order each time.
std::string relax(const std::vector<LossCurve>& references, double irreproducible, GateVerdict& verdict) {
  if (irreproducible <= verdict.tolerance) return {};
  const auto differs = [&](const LossCurve& other) {
    return worst_difference(other, references.front()).difference > 0;
  };
  const bool irreproducible_reference = std::ranges::any_of(references, differs);
  verdict.undecided =
      references.size() == 1 && verdict.worst > verdict.tolerance && verdict.worst <= irreproducible;
  if (!irreproducible_reference && !verdict.undecided) return {};
  verdict.tolerance = irreproducible;
  return irreproducible_reference
             ? "; the reference's own runs are not bit-equal, so equal bits are not asked for"
             : "; the reference ran once, so whether it repeats its own bits is not known";
}

void compare_curves(const std::vector<LossCurve>& subjects, const std::vector<LossCurve>& references,
                    double irreproducible, GateVerdict& verdict) {
  for (const auto& subject : subjects) {
    const Worst worst = worst_difference(subject, references.front());
    if (worst.step < 0) {
      verdict.passed = verdict.compared = false;
      verdict.message = "no step to compare";
      return;
    }
    if (verdict.at_step < 0 || worst.difference > verdict.worst) {
      verdict.worst = worst.difference;
      verdict.at_step = worst.step;
    }
  }
  const std::string remark = relax(references, irreproducible, verdict);
  verdict.passed = verdict.worst <= verdict.tolerance;
  const std::string allowed =
      verdict.tolerance == 0 ? "none is allowed" : scientific(verdict.tolerance) + " is allowed";
  verdict.message = verdict.worst == 0 ? "losses are bit-equal"
                                       : "losses differ by up to " + scientific(verdict.worst) + " (step " +
                                             std::to_string(verdict.at_step) + "); " + allowed;
  verdict.message += remark;
}

void ask_for_a_fall(const LossCurve& losses, GateVerdict& verdict) {
  const auto third = static_cast<std::ptrdiff_t>(std::max<size_t>(1, losses.size() / 3));
  const auto moments = [&](auto begin) {
    const double n = static_cast<double>(third), mean = std::accumulate(begin, begin + third, 0.0) / n;
    const double squares = std::accumulate(
        begin, begin + third, 0.0, [&](double sum, double x) { return sum + (x - mean) * (x - mean); });
    return std::pair(mean, n > 1 ? squares / (n - 1) / n : 0.0);
  };
  bool fell = losses.size() >= 2;
  if (fell) {
    const auto [first, first_error] = moments(losses.begin());
    const auto [last, last_error] = moments(losses.end() - third);
    fell = last < first + kRiseInStandardErrors * std::sqrt(first_error + last_error);
  }
  verdict.passed = fell;
  verdict.message +=
      std::string(verdict.message.empty() ? "" : "; ") + (fell ? "the loss falls" : "the loss does not fall");
}
}  // namespace

GateVerdict judge(const GateCheck& check, const GateEvidence& evidence) {
  GateVerdict verdict;
  verdict.passed = true;
  verdict.tolerance = check.tolerance;
  std::vector<LossCurve> subjects = evidence.own;
  if (check.subject) subjects.clear();
  if (check.subject && evidence.subject) subjects.push_back(*evidence.subject);
  verdict.compared = check.compares() && !subjects.empty() && !evidence.reference.empty();
  auto references = evidence.reference;
  if (evidence.repeat) references.push_back(*evidence.repeat);
  if (verdict.compared)
    compare_curves(subjects, references, check.tolerance_if_irreproducible, verdict);
  else if (check.compares())
    verdict.message =
        std::string("not compared: its ") + (subjects.empty() ? "probe" : "reference") + " did not run";
  const bool unproven = check.compares() && !verdict.compared;
  if (verdict.passed && (check.must_fall || unproven) && !evidence.own.empty())
    ask_for_a_fall(evidence.own.front(), verdict);
  return verdict;
}
}  // namespace optrush
