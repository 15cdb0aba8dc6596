#include "analysis/gate/gate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/number_text.h"

namespace optrush {
namespace {
struct ByArithmetic {
  double fp64, fp32, reduced;
  double of(Arithmetic arithmetic) const {
    return arithmetic == Arithmetic::fp64 ? fp64 : arithmetic == Arithmetic::fp32 ? fp32 : reduced;
  }
};
struct Tolerances {
  Effect effect;
  ByArithmetic losses;  ///< largest relative difference of two losses in one of the first steps
  /// The same of gradient norms, over the first kNormSteps steps. Over stacks, seeds and learning rates of
  /// 3e-4 and 3e-3 on two small models, norms differed 10 to 50 times as much as losses. A step's sum in
  /// place of its mean, or a missing rank or scale, changes them by a factor.
  ByArithmetic norms;
};
constexpr std::array<Tolerances, 5> kTolerances = {{
    // The same operations in the same order give the same bits in every arithmetic.
    {Effect::exact, {0, 0, 0}, {0, 0, 0}},
    // Losses: unit roundoff (1e-16, 6e-8, 4e-3), increased by a dozen AdamW steps and averaged over thousands
    // of tokens. Norms, measured: at most 9e-6 in fp32 and 3 % in bf16.
    {Effect::rounding, {1e-9, 1e-4, 5e-3}, {1e-8, 1e-3, 0.1}},
    // bf16 has 8 bits (0.4 % per operation) and fp8 has 4. After ten steps of a tiny model the losses
    // differed by 0.04 % and 0.8 %. A wrong mask changes the loss by much more than 2 %. A scale that is
    // missing in every linear may change it less in so few steps, but changes the gradient norm. Norms,
    // measured: at most 3 % in bf16 and 8 % in fp8.
    {Effect::precision, {2e-2, 2e-2, 2e-2}, {0.25, 0.25, 0.25}},
    // At an equal global batch, another split only changes the order of sums.
    {Effect::batch, {1e-9, 1e-4, 5e-3}, {1e-8, 1e-3, 0.1}},
    // Compared with its plain form, whose operations have another order.
    {Effect::model, {1e-9, 1e-4, 5e-3}, {1e-8, 1e-3, 0.1}},
}};

/// An error of a gradient's scale appears in the first steps, and in many of them. Later, updates have fed
/// differences back so often that norms of equally good runs differ: by up to 30 % after 20 steps in bf16.
/// Each of the first kNormsAlone norms counts. Of the later ones up to kNormSteps the median difference
/// counts, because at a high learning rate a single one may be far off: by 28 % at step 11 with 4-bit
/// matrices at 3e-3.
constexpr size_t kNormsAlone = 6, kNormSteps = 12;

/// The tolerance of later losses. Updates feed differences back, so later losses of equally good runs differ
/// by whole percents in single steps, however small the first differences were. With learning rates of 3e-4
/// to 3e-3 on two small models: 3e-3 after 24 steps in fp8, 4e-2 after 32; 7 % after 1,500 for other kernels
/// in fp32. Means of kLossSteps losses differed by at most 0.4 % of the first loss in fp32, 2 % in bf16 and 3
/// % in fp8.
constexpr double kLaterTolerance = 0.05;

/// The loss must fall: the mean of the last third of the curve is below the mean of the first third, or above
/// it by at most this number of standard errors, because batches differ by more than a short run learns. A
/// constant loss exceeds this after 12 steps (6 degrees of freedom) once in 280 times.
constexpr double kRiseInStandardErrors = 4;

std::string three_digits(double value) { return significant(value, 3); }

/// The step at which two curves differ most.
struct Worst {
  double difference = 0, subject = 0, reference = 0;
  int64_t step = -1;

  void add(double a, double b, int64_t at) { add(a, b, at, std::abs(b)); }
  void add(double a, double b, int64_t at, double unit) {
    double apart = a == b ? 0 : std::abs(a - b) / unit;
    if (std::isnan(apart)) apart = std::numeric_limits<double>::infinity();
    if (step < 0 || apart > difference) *this = {apart, a, b, at};
  }
  void add(const Worst& other) {
    if (other.step >= 0 && (step < 0 || other.difference > difference)) *this = other;
  }
};

size_t shared_steps(const Curve& a, const Curve& b) { return std::min(a.losses.size(), b.losses.size()); }

/// Over the first `steps` steps that both curves have. A loss that is not finite is infinitely far away.
Worst losses_apart(const Curve& a, const Curve& b, size_t steps = std::numeric_limits<size_t>::max()) {
  Worst worst;
  for (size_t i = 0; i < std::min(shared_steps(a, b), steps); ++i)
    worst.add(a.losses[i], b.losses[i], static_cast<int64_t>(i));
  return worst;
}

/// The largest difference of means of kLossSteps losses, relative to the reference's first loss; none if
/// there are no steps after the first kLossSteps.
Worst later_losses_apart(const Curve& subject, const Curve& reference) {
  Worst worst;
  const double unit = std::abs(reference.losses.front());
  const auto mean = [](const Curve& curve, size_t begin) {
    const auto first = curve.losses.begin() + static_cast<std::ptrdiff_t>(begin);
    return std::accumulate(first, first + kLossSteps, 0.0) / kLossSteps;
  };
  for (size_t end = shared_steps(subject, reference); end > kLossSteps; end -= kLossSteps) {
    const size_t begin = end - kLossSteps;
    const double a = mean(subject, begin), b = mean(reference, begin);
    worst.add(a, b, static_cast<int64_t>(begin), unit);
  }
  return worst;
}

/// Differences of gradient norms: each of the first, and the later ones.
struct NormsApart {
  Worst first;
  std::vector<Worst> later;

  /// The largest of all.
  Worst worst() const {
    Worst all = first;
    for (const Worst& each : later) all.add(each);
    return all;
  }
  /// The largest of the first and the median of the later ones; of an even number, the larger middle one.
  Worst judged() const {
    Worst all = first;
    if (auto sorted = later; !sorted.empty()) {
      std::ranges::sort(sorted, {}, &Worst::difference);
      all.add(sorted[sorted.size() / 2]);
    }
    return all;
  }
};

/// Over the first steps, up to an update that only one of the runs skipped, because parameters differ from
/// there on.
NormsApart norms_apart(const Curve& a, const Curve& b) {
  NormsApart apart;
  for (size_t i = 0; i < std::min({a.norms.size(), b.norms.size(), kNormSteps}); ++i) {
    if (std::isfinite(a.norms[i]) != std::isfinite(b.norms[i])) break;
    if (!std::isfinite(a.norms[i])) continue;
    Worst here;
    here.add(a.norms[i], b.norms[i], static_cast<int64_t>(i));
    if (i < kNormsAlone)
      apart.first.add(here);
    else
      apart.later.push_back(here);
  }
  return apart;
}

std::string allowed_text(double tolerance) {
  return tolerance == 0 ? "none is allowed" : share_text(tolerance) + " is allowed";
}

/// `whose`: " of the first steps" if the message also mentions later ones.
std::string losses_text(const Worst& worst, double tolerance, const std::string& whose = "") {
  if (worst.difference == 0) return "losses" + whose + " are bit-equal";
  return "losses" + whose + " differ by up to " + share_text(worst.difference) + " (step " +
         std::to_string(worst.step) + "); " + allowed_text(tolerance);
}

std::string later_text(const Worst& worst) {
  const std::string steps = std::to_string(kLossSteps);
  if (worst.difference <= kLaterTolerance)
    return "means of " + steps + " later ones by up to " + share_text(worst.difference) +
           " of the first loss (from step " + std::to_string(worst.step) + "); " +
           allowed_text(kLaterTolerance);
  const auto percent = [](double share) { return three_digits(100 * share) + " %"; };
  return "from step " + std::to_string(worst.step) + " on the mean of " + steps + " losses is " +
         three_digits(worst.subject) + ", the reference's " + three_digits(worst.reference) + ": " +
         percent(worst.difference) + " of the first loss apart; " + percent(kLaterTolerance) + " is allowed";
}

std::string norms_text(const Worst& worst, double tolerance) {
  if (worst.difference == 0) return "gradient norms are bit-equal";
  if (worst.difference <= tolerance)
    return "gradient norms differ by up to " + share_text(worst.difference) + " (step " +
           std::to_string(worst.step) + "); " + allowed_text(tolerance);
  const std::string at = "the gradient norm of step " + std::to_string(worst.step) + " is ";
  constexpr double kFactor = 0.05;  // from here on, the message states a factor instead of a difference
  if (worst.difference < kFactor)
    return at + exact_number(worst.subject) + " and that of the reference " + exact_number(worst.reference) +
           ", a difference of " + share_text(worst.difference) + "; " + allowed_text(tolerance);
  return at + three_digits(worst.subject) + ", " + three_digits(worst.subject / worst.reference) +
         " times the reference's " + three_digits(worst.reference) + "; a difference of " +
         allowed_text(tolerance);
}

/// Compares all subjects with the first reference.
class Comparison {
 public:
  Comparison(const GateCheck& check, const std::vector<Curve>& subjects, const std::vector<Curve>& references)
      : check_(check), references_(references) {
    for (const Curve& subject : subjects) {
      const Worst loss = losses_apart(subject, references.front());
      complete_ = complete_ && loss.step >= 0;
      all_.add(loss);
      if (loss.step < 0) continue;
      first_.add(losses_apart(subject, references.front(), kLossSteps));
      // Near zero, a loss is small compared with the differences of two good runs.
      if (check.overfit == 0) later_.add(later_losses_apart(subject, references.front()));
      const NormsApart norms = norms_apart(subject, references.front());
      all_norms_.add(norms.worst());
      judged_norms_.add(norms.judged());
    }
  }

  void judge(GateVerdict& verdict) const {
    verdict.compared = complete_;
    if (!complete_) {
      verdict.passed = false;
      verdict.message = "the runs have no common step to compare";
      return;
    }
    Allowance allowed = check_.allowed;
    const std::string remark = relax(allowed, verdict);
    verdict.passed = within(allowed);
    const Worst& loss = losses_of(allowed);
    verdict.loss = {loss.difference, loss.step, allowed.loss};
    if (has_later(allowed)) verdict.later = {later_.difference, later_.step, kLaterTolerance};
    if (const Worst& norm = norms_of(allowed); norm.step >= 0)
      verdict.norm = {norm.difference, norm.step, allowed.norm};
    verdict.message = message(allowed) + remark;
  }

 private:
  /// If equal bits are required, all steps count, because equal bits stay equal.
  const Worst& losses_of(const Allowance& allowed) const { return allowed.loss == 0 ? all_ : first_; }
  const Worst& norms_of(const Allowance& allowed) const {
    return allowed.norm == 0 ? all_norms_ : judged_norms_;
  }
  bool has_later(const Allowance& allowed) const { return allowed.loss > 0 && later_.step >= 0; }
  bool later_fails(const Allowance& allowed) const {
    return has_later(allowed) && later_.difference > kLaterTolerance;
  }

  bool within(const Allowance& allowed) const {
    return losses_of(allowed).difference <= allowed.loss && !later_fails(allowed) &&
           norms_of(allowed).difference <= allowed.norm;
  }

  /// Requires equal bits only if the reference repeats its own: on a GPU, a backward may sum in another order
  /// each time.
  std::string relax(Allowance& allowed, GateVerdict& verdict) const {
    const Allowance& irreproducible = check_.allowed_if_irreproducible;
    if (irreproducible.loss <= allowed.loss && irreproducible.norm <= allowed.norm) return {};
    const auto differs = [&](const Curve& other) {
      const Curve& first = references_.front();
      return losses_apart(other, first).difference > 0 || norms_apart(other, first).worst().difference > 0;
    };
    const bool repeats = std::ranges::none_of(references_, differs);
    verdict.undecided = references_.size() == 1 && !within(allowed) && within(irreproducible);
    if (repeats && !verdict.undecided) return {};
    allowed = irreproducible;
    return repeats ? "; the reference ran only once, so bit equality was not checked"
                   : "; the runs of the reference are not bit-equal, so equal bits are not required";
  }

  /// The message starts with what failed. If losses fail, norms that agree are left out.
  std::string message(const Allowance& allowed) const {
    const Worst& loss = losses_of(allowed);
    std::string losses = losses_text(all_.difference == 0 ? all_ : loss, allowed.loss);
    if (has_later(allowed) && all_.difference > 0) {
      const std::string later = later_text(later_);
      losses = losses_text(loss, allowed.loss, " of the first " + std::to_string(kLossSteps) + " steps");
      losses = later_fails(allowed) ? later + "; " + losses : losses + "; " + later;
    }
    const Worst& norm = norms_of(allowed);
    if (norm.step < 0) return losses;
    const bool losses_fail = loss.difference > allowed.loss || later_fails(allowed),
               norms_fail = norm.difference > allowed.norm;
    if (losses_fail && !norms_fail) return losses;
    if (all_.difference == 0 && all_norms_.difference == 0) return "losses and gradient norms are bit-equal";
    std::string norms = norms_text(norm, allowed.norm);
    if (!norms_fail && all_norms_.difference > allowed.norm)
      norms += ", also for half of the norms from step " + std::to_string(kNormsAlone) +
               " on: that of step " + std::to_string(all_norms_.step) + " differs by " +
               scientific(all_norms_.difference);
    return norms_fail && !losses_fail ? norms + "; " + losses : losses + "; " + norms;
  }

  const GateCheck& check_;
  const std::vector<Curve>& references_;
  bool complete_ = true;  ///< every subject shares a step with the reference
  Worst all_, first_, later_, all_norms_, judged_norms_;
};

/// The mean of a curve's last third minus that of its first third, with its standard error.
struct Rise {
  double value = 0, error = 0;
};

Rise rise_of(const std::vector<double>& losses) {
  const auto third = static_cast<std::ptrdiff_t>(losses.size() / 3);
  const auto moments = [&](auto begin) {
    const double n = static_cast<double>(third), mean = std::accumulate(begin, begin + third, 0.0) / n;
    const double squares = std::accumulate(
        begin, begin + third, 0.0, [&](double sum, double x) { return sum + (x - mean) * (x - mean); });
    return std::pair(mean, squares / (n - 1) / n);
  };
  const auto [first, first_error] = moments(losses.begin());
  const auto [last, last_error] = moments(losses.end() - third);
  return {last - first, std::sqrt(first_error + last_error)};
}

/// How far a loss may rise. Harder batches at the end also raise the base's loss, so they are not blamed on a
/// rung. The base also shows the scatter of batches: scatter of a rung above a hundredth of its loss comes
/// from a diverging training and must not excuse it.
double allowed_rise(const std::vector<double>& losses, const std::optional<Curve>& base) {
  constexpr double kOwnScatter = 0.01;
  const double own = rise_of(losses).error;
  if (!base || base->losses.size() != losses.size()) return kRiseInStandardErrors * own;
  const Rise of_base = rise_of(base->losses);
  const double scatter = std::max(of_base.error, std::min(own, kOwnScatter * std::abs(losses.front())));
  return std::max(0.0, of_base.value) + kRiseInStandardErrors * scatter;
}

void add_message(GateVerdict& verdict, const std::string& text) {
  verdict.message += (verdict.message.empty() ? "" : "; ") + text;
}

void ask_for_a_fall(const std::vector<double>& losses, const std::optional<Curve>& base,
                    GateVerdict& verdict) {
  if (losses.size() < kStepsForAFall)
    return add_message(verdict, "the check for a falling loss needs " + std::to_string(kStepsForAFall) +
                                    " steps, and the run has " + std::to_string(losses.size()));
  const double rise = rise_of(losses).value;
  verdict.passed = rise < allowed_rise(losses, base);
  add_message(verdict, rise < 0         ? "the loss falls"
                       : verdict.passed ? "the loss does not rise by more than it varies between batches"
                                        : "the loss does not fall");
}

void ask_to_overfit(const std::vector<Curve>& runs, double below, GateVerdict& verdict) {
  const auto last = [](const Curve& run) { return run.losses.back(); };
  const Curve& worst = *std::ranges::max_element(runs, {}, last);
  verdict.passed = last(worst) < below;
  add_message(verdict, "the loss of one batch is " + three_digits(last(worst)) + " after " +
                           std::to_string(worst.losses.size()) + " steps" +
                           (verdict.passed ? ""
                                           : ", but train.overfit requires less than " + three_digits(below) +
                                                 " (more steps or another learning rate may help)"));
}
}  // namespace

Allowance allowance_of(Effect effect, Arithmetic arithmetic) {
  const Tolerances& of_effect = *std::ranges::find(kTolerances, effect, &Tolerances::effect);
  return {of_effect.losses.of(arithmetic), of_effect.norms.of(arithmetic)};
}

GateVerdict judge(const GateCheck& check, const GateEvidence& evidence) {
  GateVerdict verdict;
  verdict.passed = true;
  std::vector<Curve> subjects = evidence.own;
  if (check.subject) subjects.clear();
  if (check.subject && evidence.subject) subjects.push_back(*evidence.subject);
  auto references = evidence.reference;
  if (evidence.repeat) references.push_back(*evidence.repeat);
  if (check.compares() && !subjects.empty() && !evidence.reference.empty())
    Comparison(check, subjects, references).judge(verdict);
  else if (check.compares())
    verdict.message =
        std::string("not compared: its ") + (subjects.empty() ? "probe" : "reference") + " did not run";
  const bool unproven = check.compares() && !verdict.compared;
  if (!verdict.passed || evidence.own.empty()) return verdict;
  if (check.overfit > 0)
    ask_to_overfit(evidence.own, check.overfit, verdict);
  else if (check.must_fall || unproven)
    ask_for_a_fall(evidence.own.front().losses, evidence.base, verdict);
  return verdict;
}
}  // namespace optrush
