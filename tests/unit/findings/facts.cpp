#include "facts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "analysis/analysis.h"

namespace optrush::test {
const Row& Facts::row(const std::string& name) const {
  for (const Row& row : a_.rows)
    if (row.name == name) return row;
  ADD_FAILURE() << "there is no rung '" << name << "'";
  return a_.rows.front();
}

Measured Facts::ratio(const Row& subject, const Row& reference) const {
  std::vector<double> logs;
  for (size_t i = 0; i < subject.rounds.size(); ++i)
    for (size_t j = 0; j < reference.rounds.size(); ++j)
      if (subject.rounds[i] == reference.rounds[j])
        logs.push_back(std::log(subject.samples[i] / reference.samples[j]));
  Measured m{.rounds = logs.size()};
  if (logs.empty()) return m;
  const auto n = static_cast<double>(logs.size());
  double mean = 0, squares = 0;
  for (const double x : logs) mean += x / n;
  for (const double x : logs) squares += (x - mean) * (x - mean);
  m.value = m.low = m.high = std::exp(mean);
  if (logs.size() < 3) return m;
  const auto& [common, weight] = a_.standard.variance;
  const double least = kLeastSpread * kLeastSpread * (n - 1);
  const double variance = (std::max(squares, least) + weight * common) / (n - 1 + weight);
  const double half = t_quantile(n - 1 + weight, a_.standard.error_of_one()) * std::sqrt(variance / n);
  m.low = std::exp(mean - half);
  m.high = std::exp(mean + half);
  return m;
}

Measured Facts::to_previous(const Row& r) const { return ratio_to(r, r.previous.variant); }

Measured Facts::to_base(const Row& r) const { return ratio_to(r, r.base.variant); }

Measured Facts::ratio_to(const Row& r, int64_t variant) const {
  const Row* reference = a_.row(variant);
  if (reference != nullptr) return ratio(r, *reference);
  ADD_FAILURE() << "'" << r.name << "' is compared with nothing";
  return {};
}

std::vector<const Row*> Facts::ok_rows(const std::function<bool(const Row&)>& wanted) const {
  std::vector<const Row*> rows;
  for (const Row& r : a_.rows)
    if (r.ok() && wanted(r)) rows.push_back(&r);
  return rows;
}

std::vector<const Row*> Facts::ladder() const {
  return ok_rows([this](const Row& r) {
    return r.group == "ladder" && r.previous.variant >= 0 && r.previous.differs.empty() &&
           r.previous.between.empty() && r.devices == a_.row(r.previous.variant)->devices;
  });
}

double Facts::farthest(const Measured& m) const {
  const double error = a_.standard.error_of_one();
  const double degrees = static_cast<double>(m.rounds) - 1 + a_.standard.variance.degrees;
  const double half = std::log(m.high / m.low) / 2;
  return std::abs(std::log(m.value)) + half * t_quantile(degrees, 2 * error) / t_quantile(degrees, error);
}

bool Facts::undecided(const Measured& m) const {
  return m.interval() && !m.claim() && farthest(m) > std::log1p(0.05);
}

const Row& Facts::stack(const std::string& name) const {
  static const std::string kUpTo = "the stack up to ";
  if (name.starts_with(kUpTo)) return row(name.substr(kUpTo.size()));
  if (name != "the full stack") return row(name);
  for (const Row& r : a_.rows)
    if (r.group == "full") return r;
  return last_of_ladder();
}

std::vector<std::string> Facts::ablated() const {
  std::vector<std::string> names;
  for (const Row& r : a_.rows)
    if (r.group == "without") names.push_back(r.name.substr(std::string("without ").size()));
  return names;
}

Measured Facts::worth(const std::string& name) const {
  const auto full = ok_rows([](const Row& r) { return r.group == "full"; });
  const Row& without = row("without " + name);
  // If a rung changes the problem, the stack without it is not compared with the full stack.
  const bool compared = !full.empty() && without.ok() && without.previous.variant == full.front()->variant;
  return compared ? ratio(*full.front(), without) : Measured{};
}

std::vector<const Row*> Facts::rivals() const {
  return ok_rows([this](const Row& r) {
    return r.group == "grid" && r.base.variant >= 0 && r.base.differs.empty() && !r.base.worse && !misses(r);
  });
}

const ScalingSeries& Facts::series(const std::string& title) const {
  for (const ScalingSeries& one : a_.scaling)
    if (one.title() == title) return one;
  ADD_FAILURE() << "there is no series '" << title << "'";
  return a_.scaling.front();
}

const Row* Facts::most_ranks(const ScalingSeries& series) const {
  const Row* most = nullptr;
  for (const ScalingPoint& point : series.points)
    if (ratio(*a_.row(point.variant), *a_.row(series.points.front().variant)).interval() &&
        point.ranks > series.points.front().ranks)
      most = a_.row(point.variant);
  return most;
}

std::vector<const Row*> Facts::timed() const {
  const auto first = std::ranges::find_if(a_.rows, [](const Row& r) { return r.time_to_loss.has_value(); });
  return ok_rows([&](const Row& r) {
    return r.time_to_loss && r.time_to_loss->enough_steps && r.same_as < 0 &&
           r.time_to_loss->validated == first->time_to_loss->validated &&
           same_task(a_.spec(r), a_.variants.front().spec);
  });
}

bool Facts::misses(const Row& r) const {
  return r.time_to_loss && r.time_to_loss->enough_steps && !r.time_to_loss->seconds &&
         !ok_rows([&](const Row& other) {
            return other.time_to_loss && other.time_to_loss->seconds &&
                   other.time_to_loss->validated == r.time_to_loss->validated;
          }).empty();
}

std::string Facts::table() const {
  std::string text = "the table:\n";
  for (const Row& r : a_.rows) {
    text += "  " + r.group + " '" + r.name + "' " + std::string(to_string(r.status)) + ", rounds";
    for (const double sample : r.samples) text += " " + std::to_string(sample);
    if (r.previous.variant >= 0)
      text += "; to " + r.previous.name + " " + std::to_string(to_previous(r).value) + " [" +
              std::to_string(to_previous(r).low) + ", " + std::to_string(to_previous(r).high) + "]";
    if (r.base.variant >= 0)
      text += "; to " + r.base.name + " " + std::to_string(to_base(r).value) + " [" +
              std::to_string(to_base(r).low) + ", " + std::to_string(to_base(r).high) + "]";
    text += "\n";
  }
  return text;
}

const Row& Facts::last_of_ladder() const {
  int64_t last = 0;
  for (const Row& r : a_.rows)
    if (r.group == "ladder") last = r.variant;
  return *a_.row(last);
}
}  // namespace optrush::test
