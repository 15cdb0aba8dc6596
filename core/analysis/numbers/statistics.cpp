#include "analysis/numbers/statistics.h"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>

#include "optrush/error.h"

namespace optrush {
namespace {
struct Moments {
  double mean = 0;
  double variance = kLeastSpread * kLeastSpread;  ///< sample variance, at least this
};

Moments moments(const std::vector<double>& values) {
  Moments m;
  for (const double v : values) m.mean += v / static_cast<double>(values.size());
  if (values.size() < 2) return m;
  double variance = 0;
  for (const double v : values)
    variance += (v - m.mean) * (v - m.mean) / static_cast<double>(values.size() - 1);
  m.variance = std::max(m.variance, variance);
  return m;
}

std::vector<double> logarithms(const std::vector<double>& values) {
  std::vector<double> logs;
  for (const double v : values) {
    if (!(v > 0) || !std::isfinite(v))
      throw Error(ErrorCode::internal, "a ratio needs positive, finite measurements");
    logs.push_back(std::log(v));
  }
  return logs;
}

Ratio from_logs(double mean, double standard_error, double degrees_of_freedom, size_t rounds,
                const Standard& standard) {
  Ratio ratio{std::exp(mean), std::nullopt, rounds, standard, degrees_of_freedom};
  if (rounds < kMinRounds) return ratio;
  const double half = t_quantile(degrees_of_freedom, standard.error_of_one()) * standard_error;
  ratio.interval = Interval{std::exp(mean - half), std::exp(mean + half)};
  return ratio;
}
struct Variance {
  double value = 0, degrees = 0;  ///< 0 degrees of freedom: it is known
};

/// The interval of a sum of independent variances, with the degrees of freedom of Welch and Satterthwaite.
Ratio welch(double mean, std::initializer_list<Variance> variances, size_t rounds, const Standard& standard) {
  double sum = 0, denominator = 0;
  for (const auto& [value, degrees] : variances) {
    sum += value;
    if (degrees > 0) denominator += value * value / degrees;
  }
  return from_logs(mean, std::sqrt(sum), sum * sum / denominator, rounds, standard);
}
}  // namespace

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double Ratio::degrees_of_freedom() const { return degrees > 0 ? degrees : static_cast<double>(rounds) - 1; }

double Ratio::standard_error() const {
  const double half = std::log(interval->high / interval->low) / 2;
  return half / t_quantile(degrees_of_freedom(), standard.error_of_one());
}

double t_quantile(double degrees_of_freedom, double error) {
  return boost::math::quantile(boost::math::students_t(degrees_of_freedom), 1 - error / 2);
}

Ratio paired_ratio(const std::vector<double>& subject, const std::vector<double>& reference,
                   const Standard& standard) {
  if (subject.size() != reference.size() || subject.empty())
    throw Error(ErrorCode::internal, "a paired ratio needs the same rounds twice");
  auto differences = logarithms(subject);
  const auto reference_logs = logarithms(reference);
  for (size_t i = 0; i < differences.size(); ++i) differences[i] -= reference_logs[i];
  return ratio_of_logs(differences, standard);
}

Ratio ratio_of_logs(const std::vector<double>& log_ratios, const Standard& standard) {
  const auto n = static_cast<double>(log_ratios.size());
  const auto [mean, variance] = moments(log_ratios);
  const CommonVariance& common = standard.variance;
  const double degrees = n - 1 + common.degrees;
  const double both = degrees > 0 ? ((n - 1) * variance + common.degrees * common.value) / degrees : variance;
  return from_logs(mean, std::sqrt(both / n), degrees, log_ratios.size(), standard);
}

Ratio unpaired_ratio(const std::vector<double>& subject, const std::vector<double>& reference,
                     const Standard& standard, double between) {
  if (subject.empty() || reference.empty())
    throw Error(ErrorCode::internal, "a ratio needs a measurement on each side");
  const auto a = moments(logarithms(subject));
  const auto b = moments(logarithms(reference));
  const auto n = static_cast<double>(subject.size()), m = static_cast<double>(reference.size());
  return welch(a.mean - b.mean,
               {{a.variance / n, std::max(n - 1, 1.0)}, {b.variance / m, std::max(m - 1, 1.0)}, {between, 0}},
               std::min(subject.size(), reference.size()), standard);
}

Ratio quotient(const Ratio& subject, const Ratio& reference, const Standard& standard) {
  const auto of = [](const Ratio& ratio) {
    return Variance{ratio.standard_error() * ratio.standard_error(), ratio.degrees_of_freedom()};
  };
  return welch(std::log(subject.value / reference.value), {of(subject), of(reference)},
               std::min(subject.rounds, reference.rounds), standard);
}
}  // namespace optrush
