// Reads the sentences that a report opens with against its table, and knows nothing of the code that wrote
// them. A sentence that it does not know is an error.
#pragma once
#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "report/analysis/analysis.h"
#include "report/analysis/problem.h"
#include "report/numbers/format.h"
#include "split.h"

namespace optrush::test {

/// A ratio as the samples of the table give it.
struct Measured {
  size_t rounds = 0;
  double value = 1, low = 0, high = 0;

  bool interval() const { return rounds >= 3; }
  bool faster() const { return interval() && low > 1; }
  bool slower() const { return interval() && high < 1; }
  bool claim() const { return faster() || slower(); }
};

/// "1.52x [1.48, 1.57]" or "1.52x".
inline const std::string kValue = R"((\d+\.\d+)x)", kRatio = kValue + R"( \[(\d+\.\d+), (\d+\.\d+)\])";
inline const std::string kName = R"(([A-Za-z]+(?: [a-z]+)?(?: \+ [A-Za-z]+)*))";

class Reader {
 public:
  explicit Reader(const Analysis& analysis) : a_(analysis) {}

  void read_all() {
    ASSERT_FALSE(a_.findings.empty());
    for (const std::string& finding : a_.findings) {
      ASSERT_TRUE(finding.ends_with(".")) << finding;
      read(finding.substr(0, finding.size() - 1));
    }
    read_headline();
    if (::testing::Test::HasFailure()) ADD_FAILURE() << table();
  }

 private:
  using Groups = std::vector<std::string>;

  const Row& row(const std::string& name) const {
    for (const Row& row : a_.rows)
      if (row.name == name) return row;
    ADD_FAILURE() << "there is no rung '" << name << "'";
    return a_.rows.front();
  }
  bool is_rung(const std::string& name) const { return std::ranges::count(a_.rows, name, &Row::name) > 0; }

  Measured ratio(const Row& subject, const Row& reference) const {
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
    const double half =
        t_quantile(n - 1, a_.experiment.until ? 0.02 : 0.05) * std::sqrt(squares / (n - 1) / n);
    m.low = std::exp(mean - half);
    m.high = std::exp(mean + half);
    return m;
  }
  /// Of a row with the one that its cell "vs previous" or "vs base" is about.
  Measured to_previous(const Row& r) const { return ratio_to(r, r.previous.variant); }
  Measured to_base(const Row& r) const { return ratio_to(r, r.base.variant); }
  Measured ratio_to(const Row& r, int64_t variant) const {
    const Row* reference = a_.row(variant);
    if (reference != nullptr) return ratio(r, *reference);
    ADD_FAILURE() << "'" << r.name << "' is compared with nothing";
    return {};
  }

  static void is(const std::string& text, double value, const std::string& what) {
    const size_t point = text.find('.');
    const double unit =
        point == std::string::npos ? 1 : std::pow(10, -static_cast<double>(text.size() - point - 1));
    EXPECT_NEAR(std::stod(text), value, 0.501 * unit) << what;
  }
  /// Three groups from `at` on.
  static void is(const Groups& g, size_t at, const Measured& m) {
    is(g[at], m.value, "the ratio");
    EXPECT_TRUE(m.interval()) << "an interval of " << m.rounds << " rounds";
    is(g[at + 1], m.low, "the low end");
    is(g[at + 2], m.high, "the high end");
    if (m.claim()) {
      const bool holds_1 = std::stod(g[at + 1]) <= 1 && std::stod(g[at + 2]) >= 1;
      EXPECT_FALSE(holds_1) << "printed, the interval holds 1";
    }
  }

  std::vector<const Row*> ok_rows(const std::function<bool(const Row&)>& wanted) const {
    std::vector<const Row*> rows;
    for (const Row& r : a_.rows)
      if (r.ok() && wanted(r)) rows.push_back(&r);
    return rows;
  }
  /// Rows of a ladder with a cell against the row right below, of one problem and on as many ranks.
  std::vector<const Row*> ladder() const {
    return ok_rows([this](const Row& r) {
      return r.group == "ladder" && r.previous.variant >= 0 && r.previous.differs.empty() &&
             r.previous.between.empty() && r.devices == a_.row(r.previous.variant)->devices;
    });
  }

  /// Made once: to compile a pattern takes a thousand times as long as to match it.
  static const std::regex& compiled(const std::string& pattern) {
    static std::map<std::string, std::regex> all;
    const auto known = all.find(pattern);
    return known != all.end() ? known->second : all.emplace(pattern, std::regex(pattern)).first->second;
  }

  void read(const std::string& sentence) {
    SCOPED_TRACE(sentence);
    std::string text = sentence;
    if (std::smatch m;
        std::regex_match(text, m, compiled(R"((\d+) runs? ha(?:s|ve) no result yet; so far: (.*))"))) {
      EXPECT_EQ(std::stoul(m[1]), missing());
      text = m[2];
    }
    text = without_capital(text);
    for (const auto& [pattern, check] : sentences()) {
      std::smatch m;
      if (!std::regex_match(text, m, compiled(pattern))) continue;
      Groups groups;
      for (const auto& group : m) groups.push_back(group);
      return check(groups);
    }
    ADD_FAILURE() << "the reader does not know this sentence";
  }

  /// As in the middle of a sentence.
  std::string without_capital(std::string text) const {
    if (std::ranges::none_of(a_.rows, [&](const Row& r) { return text.starts_with(r.name); }))
      text.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(text.front())));
    return text;
  }

  /// "1.96x" of "1.96x [1.88, 2.04]"
  static std::string without_intervals(const std::string& text) {
    return std::regex_replace(text, compiled(R"( \[[\d.,]+, [\d.,]+\])"), "");
  }

  /// The sentence that a report opens with: clauses of its own, and findings without their intervals, which
  /// are read with those.
  void read_headline() {
    SCOPED_TRACE("headline: " + a_.headline);
    if (a_.headline == without_intervals(a_.findings.front())) return;
    std::smatch m;
    ASSERT_TRUE(std::regex_match(
        a_.headline, m,
        compiled(
            R"((?:On this machine|(\d+) runs? ha(?:s|ve) no result yet; so far, on this machine),? (.*)\.)")));
    EXPECT_EQ(m[1].matched ? std::stoul(m[1]) : 0, missing());
    std::string rest = m[2].str() + "; ";
    for (const std::string& finding : a_.findings) {
      const std::string so_far =
          std::regex_replace(finding, compiled(R"(^\d+ runs? ha(s|ve) no result yet; so far: )"), "");
      const std::string told = without_capital(without_intervals(so_far.substr(0, so_far.size() - 1))) + "; ";
      if (const size_t at = rest.find(told); at != std::string::npos) rest.erase(at, told.size());
    }
    size_t clauses = 0;
    for (size_t end = 0; (end = rest.find("; ")) != std::string::npos; rest.erase(0, end + 2), ++clauses)
      read_clause(rest.substr(0, end));
    EXPECT_EQ(rest, "");
    EXPECT_LE(clauses, 6U) << "nobody can repeat it";
  }

  void read_clause(const std::string& clause) const {
    SCOPED_TRACE(clause);
    for (const auto& [pattern, check] : clauses()) {
      std::smatch m;
      if (!std::regex_match(clause, m, compiled(pattern))) continue;
      Groups groups;
      for (const auto& group : m) groups.push_back(group);
      return check(groups);
    }
    ADD_FAILURE() << "the reader does not know this clause";
  }

  /// "the full stack", "the stack up to X" or a rung.
  const Row& stack(const std::string& name) const {
    static const std::string kUpTo = "the stack up to ";
    if (name.starts_with(kUpTo)) return row(name.substr(kUpTo.size()));
    if (name != "the full stack") return row(name);
    for (const Row& r : a_.rows)
      if (r.group == "full") return r;
    return end_of_ladder({"", "whole ladder"});
  }

  /// The stack of the headline's first clause.
  const Row& end_of_told_stack() const {
    std::smatch m;
    const std::string text = a_.headline;
    EXPECT_TRUE(std::regex_search(
        text, m, compiled(R"( (the full stack|the stack up to [A-Za-z]+|[A-Za-z]+) trains )")))
        << text;
    return stack(m[1]);
  }

  /// " with 16 % less memory, but trains worse", or nothing.
  void rest_of_stack(const std::string& text, const Row& r) const {
    std::smatch m;
    ASSERT_TRUE(std::regex_match(
        text, m, compiled(R"((?: with (\d+(?:\.\d)?) % (less|more) memory)?(, but trains worse)?)")))
        << text;
    const double change = *r.memory.allocated / *a_.row(r.base.variant)->memory.allocated - 1;
    EXPECT_EQ(m[1].matched, std::abs(change) >= 0.05);
    if (m[1].matched) {
      is(m[1], 100 * std::abs(change), "the memory");
      EXPECT_EQ(m[2] == "more", change > 0);
    }
    EXPECT_EQ(m[3].matched, r.base.worse.has_value());
  }

  /// "A", "A and B" or "3 rungs", of rows for which this holds.
  void names(const std::string& text, const std::function<bool(const Row&)>& holds) const {
    std::vector<std::string> expected;
    for (const Row& r : a_.rows)
      if (holds(r)) expected.push_back(r.name);
    ASSERT_FALSE(expected.empty());
    EXPECT_EQ(text, expected.size() > 2    ? std::to_string(expected.size()) + " rungs"
                    : expected.size() == 2 ? expected[0] + " and " + expected[1]
                                           : expected[0]);
  }

  bool undecided(const Measured& m) const {
    if (!m.interval() || m.claim()) return false;
    const double error = a_.experiment.until ? 0.02 : 0.05, n = static_cast<double>(m.rounds);
    const double half = std::log(m.high / m.low) / 2;
    return std::abs(std::log(m.value)) + half * t_quantile(n - 1, 2 * error) / t_quantile(n - 1, error) >
           std::log1p(0.05);
  }

  using Check = std::function<void(const Groups&)>;
  std::vector<std::pair<std::string, Check>> clauses() const {
    static const std::string kStack = R"((the full stack|the stack up to [A-Za-z]+|[A-Za-z]+))",
                             kPercent = R"((\d+(?:\.\d)?) %)";
    return {
        {kStack + " trains " + kValue + " as fast((?: with|, but).*)?",
         [this](const Groups& g) {
           EXPECT_TRUE(to_base(stack(g[1])).faster());
           EXPECT_EQ(stack(g[1]).base.differs, "");
           is(g[2], to_base(stack(g[1])).value, "the speed");
           rest_of_stack(g[3], stack(g[1]));
         }},
        {kStack + " is " + kPercent + " slower than " + kName + "((?: with|, but).*)?",
         [this](const Groups& g) {
           EXPECT_TRUE(to_base(stack(g[1])).slower());
           EXPECT_EQ(g[3] == "the base" ? "base" : g[3], stack(g[1]).base.name);
           is(g[2], 100 * (1 - to_base(stack(g[1])).value), "the cost");
           rest_of_stack(g[4], stack(g[1]));
         }},
        {kStack + " trains " + kValue +
             R"( as many tokens/s \(not like for like: (.*?)\)((?: with|, but).*)?)",
         [this](const Groups& g) {
           EXPECT_TRUE(to_base(stack(g[1])).claim());
           EXPECT_EQ(g[3], stack(g[1]).base.differs);
           is(g[2], to_base(stack(g[1])).value, "the speed");
           rest_of_stack(g[4], stack(g[1]));
         }},
        {R"(the stack up to )" + kName + R"( is the fastest \()" + kValue + R"(\))",
         [this](const Groups& g) {
           const Row& fastest = row(g[1]);
           EXPECT_EQ(fastest.base.differs, "");
           EXPECT_TRUE(to_base(fastest).faster());
           is(g[2], to_base(fastest).value, "the speed");
           for (const Row* r : ladder()) {
             if (r->variant <= fastest.variant || r->base.variant != fastest.base.variant ||
                 !r->base.differs.empty())
               continue;
             EXPECT_LE(to_base(*r).value, to_base(fastest).value + 1e-9) << r->name;
           }
         }},
        {kStack + " trains as fast as " + kName + R"(( with .*)? \((no difference above \d+\.\d %)\))",
         [this](const Groups& g) {
           verdict(g[4], to_base(stack(g[1])));
           rest_of_stack(g[3], stack(g[1]));
         }},
        {kStack + " is not shown to be faster or slower than " + kName +
             R"((?: \(.* would (?:not )?decide it\))?(?:, and it trains( with .*))?)",
         [this](const Groups& g) {
           EXPECT_TRUE(undecided(to_base(stack(g[1]))));
           rest_of_stack(g[3], stack(g[1]));
         }},
        {kName +
             R"( (gives the largest certain gain|brings most of it|brings all of it|gives the largest gain) \()" +
             kValue + R"(\)(?: and saves )" + kPercent + " of the memory)?",
         [this](const Groups& g) {
           const Measured m = to_previous(row(g[1]));
           is(g[3], m.value, "the gain");
           best_gain(row(g[1]), g[2] != "gives the largest certain gain");
           if (!g[4].empty()) saves(g[4], row(g[1]));
           if (g[2].starts_with("gives")) return;
           const double whole = std::log(to_base(end_of_told_stack()).value);
           if (g[2] == "brings all of it") {
             EXPECT_NEAR(std::log(m.value), whole, 0.01);
             return;
           }
           EXPECT_LT(std::log(m.value), whole);
           double possible = 0;
           for (const Row* r :
                ok_rows([](const Row& r) { return r.group == "ladder" && r.previous.variant >= 0; }))
             if (to_previous(*r).rounds > 0) possible += std::max(0.0, std::log(to_previous(*r).value));
           EXPECT_GE(std::log(m.value), possible / 2 * (1 - 1e-9));
         }},
        {"no rung is shown to make training faster( without training worse)?( and to reach the loss)?",
         [this](const Groups& g) { no_gain(g[1], g[2]); }},
        {kName + " costs " + kPercent + " of the speed(?: and saves " + kPercent + " of the memory)?",
         [this](const Groups& g) {
           const Row& r = row(g[1]);
           EXPECT_TRUE(to_previous(r).slower());
           EXPECT_EQ(r.previous.differs, "");
           is(g[2], 100 * (1 - to_previous(r).value), "the cost");
           saves(g[3], r);
         }},
        {kName + " costs " + kPercent + " of the speed of " + kName,
         [this](const Groups& g) {
           is(g[2], 100 * (1 - ratio(row(g[1]), row(g[3])).value), "the cost");
           slower_on_as_many(row(g[1]), row(g[3]));
         }},
        {R"((\d+) ranks train )" + kValue +
             R"( as many tokens/s as (\d+) ranks? \((.*), (\d+) % efficient\))",
         [this](const Groups& g) {
           const ScalingSeries& told = series(g[4]);
           const Measured speed = ratio(*most_ranks(told), *a_.row(told.points.front().variant));
           is(g[2], speed.value, "the speed");
           scales(told, g[1], g[3], g[5], speed);
         }},
        {"the full stack does not reach it",
         [this](const Groups&) { EXPECT_TRUE(misses(stack("the full stack"))); }},
        {kName + " costs " + kPercent + " of its speed(?: and saves " + kPercent + " of its memory)?",
         [this](const Groups& g) {
           EXPECT_TRUE(worth(g[1]).slower());
           is(g[2], 100 * (1 - worth(g[1]).value), "the cost");
         }},
        {R"((\d+) more rungs? cost speed)",
         [this](const Groups& g) {
           const auto slower = [this](const Row* r) { return to_previous(*r).slower(); };
           EXPECT_EQ(std::stol(g[1]) + 2, std::ranges::count_if(ladder(), slower));
         }},
        {kName + " saves " + kPercent + " of the memory",
         [this](const Groups& g) {
           const Measured m = to_previous(row(g[1]));
           EXPECT_FALSE(m.slower() || undecided(m)) << "it may cost speed";
           EXPECT_TRUE(m.interval());
           saves(g[2], row(g[1]));
         }},
        {R"((.*?) (?:is|are) undecided(?: \(.* would (?:not )?decide it\))?)",
         [this](const Groups& g) {
           const auto rungs = ladder();
           names(g[1], [&](const Row& r) {
             return std::ranges::find(rungs, &r) != rungs.end() && undecided(to_previous(r));
           });
         }},
        {kName + R"( makes the largest (certain )?contribution to it \()" + kValue +
             R"((?:, not like for like)?\))",
         [this](const Groups& g) {
           const Measured mine = worth(g[1]);
           EXPECT_TRUE(mine.faster());
           is(g[3], mine.value, "its worth");
           for (const std::string& other : ablated()) {
             const bool more = worth(other).rounds > 0 && worth(other).value > mine.value * (1 + 1e-9);
             EXPECT_FALSE(more && (g[2].empty() || worth(other).claim())) << other << " is worth more";
           }
         }},
        {"(.*?) trains? worse",
         [this](const Groups& g) {
           names(g[1], [](const Row& r) { return r.ok() && r.previous.worse && r.group == "ladder"; });
         }},
        {R"((.*?) (ran out of memory|crashed|did not end in time|broke the correctness gate|did not run|failed))",
         [this](const Groups& g) {
           names(g[1], [&](const Row& r) { return !r.ok() && r.started && r.status == ended_so(g[2]); });
         }},
    };
  }

  /// "no rung is shown to make training faster without training worse and to reach the loss"
  void no_gain(const std::string& worse, const std::string& loss) const {
    bool any_worse = false, any_misses = false;
    for (const Row* r : ladder()) {
      if (!to_previous(*r).faster()) continue;
      EXPECT_TRUE(r->previous.worse || misses(*r)) << r->name;
      any_worse = any_worse || r->previous.worse;
      any_misses = any_misses || misses(*r);
    }
    EXPECT_EQ(!worse.empty(), any_worse);
    EXPECT_EQ(!loss.empty(), any_misses);
  }

  /// Of a series, the most ranks that have an interval over the fewest; null: none have.
  const Row* most_ranks(const ScalingSeries& series) const {
    const Row* most = nullptr;
    for (const ScalingPoint& point : series.points)
      if (ratio(*a_.row(point.variant), *a_.row(series.points.front().variant)).interval() &&
          point.ranks > series.points.front().ranks)
        most = a_.row(point.variant);
    return most;
  }
  const ScalingSeries& series(const std::string& title) const {
    for (const ScalingSeries& one : a_.scaling)
      if (one.title() == title) return one;
    ADD_FAILURE() << "there is no series '" << title << "'";
    return a_.scaling.front();
  }
  /// What is told of the fastest series of a kind.
  void scales(const ScalingSeries& told, const std::string& ranks, const std::string& fewest,
              const std::string& efficient, const Measured& speed) const {
    const Row &to = *most_ranks(told), &from = *a_.row(told.points.front().variant);
    EXPECT_EQ(std::stol(ranks), to.devices);
    EXPECT_EQ(std::stol(fewest), from.devices);
    EXPECT_LT(from.devices, to.devices);
    is(efficient, 100 * speed.value * from.hardware / to.hardware, "the efficiency");
    const auto batch = [this](const Row& r) {
      return a_.plans[static_cast<size_t>(r.variant)]->problem.global_batch;
    };
    EXPECT_EQ(told.kind == Scaling::weak, batch(to) > batch(from));
    for (const ScalingSeries& other : a_.scaling) {
      const Row* its = most_ranks(other);
      if (other.kind == told.kind && its != nullptr) {
        EXPECT_LE(ratio(*its, *a_.row(other.points.front().variant)).value, speed.value * (1 + 1e-9))
            << other.title();
      }
    }
  }
  void slower_on_as_many(const Row& slow, const Row& fast) const {
    EXPECT_EQ(slow.devices, fast.devices);
    EXPECT_TRUE(ratio(slow, fast).slower());
    EXPECT_EQ(a_.plans[static_cast<size_t>(slow.variant)]->problem.global_batch,
              a_.plans[static_cast<size_t>(fast.variant)]->problem.global_batch);
  }

  /// Rows whose losses can be compared with the target.
  std::vector<const Row*> timed() const {
    const auto first = std::ranges::find_if(a_.rows, [](const Row& r) { return r.time_to_loss.has_value(); });
    return ok_rows([&](const Row& r) {
      return r.time_to_loss && r.time_to_loss->told && r.same_as < 0 &&
             r.time_to_loss->validated == first->time_to_loss->validated &&
             same_task(a_.spec(r), a_.variants.front().spec);
    });
  }
  /// Does not reach the target loss, which another row does.
  bool misses(const Row& r) const {
    return r.time_to_loss && r.time_to_loss->told && !r.time_to_loss->seconds &&
           !ok_rows([&](const Row& other) {
              return other.time_to_loss && other.time_to_loss->seconds &&
                     other.time_to_loss->validated == r.time_to_loss->validated;
            }).empty();
  }
  /// "X ends at 2.700" or "X reaches it only in some rounds", of the row whose loss is the lowest.
  void nearest(const std::string& text, const std::vector<const Row*>& rows) const {
    std::smatch m;
    ASSERT_TRUE(std::regex_match(
        text, m,
        compiled(kName +
                 R"( (?:ends at (\d+\.\d+)(?:, and does not reach it)?|reaches it only in some rounds))")))
        << text;
    const TimeToLoss& its = *row(m[1]).time_to_loss;
    EXPECT_EQ(its.in_some_rounds, !m[2].matched);
    if (m[2].matched) is(m[2], its.last, "the loss");
    for (const Row* r : rows) EXPECT_GE(r->time_to_loss->last, its.last) << r->name;
  }
  void needs(const Row& r, const std::string& steps, const std::string& seconds) const {
    EXPECT_EQ(std::stol(steps), *r.time_to_loss->steps);
    EXPECT_EQ(seconds, duration(*r.time_to_loss->seconds));
  }
  /// "X reaches a loss of 2.5 first, after 80 steps and 12.0 s, and Y is next, after ..."
  void reaches(const Groups& g) const {
    EXPECT_EQ(std::stod(g[3]), a_.experiment.target_loss);
    std::vector<const Row*> there, others;
    for (const Row* r : timed()) (r->time_to_loss->seconds ? there : others).push_back(r);
    const auto seconds = [](const Row* r) { return *r->time_to_loss->seconds; };
    std::ranges::sort(there, {}, seconds);
    ASSERT_FALSE(there.empty());
    const Row& first = row(g[2]);
    EXPECT_EQ(*first.time_to_loss->seconds, seconds(there.front()));
    needs(first, g[5], g[6]);
    EXPECT_EQ(!g[1].empty(), there.size() == 1 && !others.empty());
    if (!g[7].empty()) {
      ASSERT_GT(there.size(), 1U);
      const Row& next = row(g[7]);
      EXPECT_EQ(*next.time_to_loss->seconds, seconds(there[1]));
      needs(next, g[8], g[9]);
      const double apart = std::max(first.time_to_loss->since_before, next.time_to_loss->since_before);
      EXPECT_EQ(!g[10].empty(), *next.time_to_loss->seconds - *first.time_to_loss->seconds < apart);
      if (!g[10].empty()) {
        EXPECT_EQ(g[10], duration(apart));
      }
    }
    ASSERT_EQ(g[12].empty(), others.empty());
    if (others.empty()) return;
    EXPECT_EQ(g[11].empty() ? 1U : std::stoul(g[11]), others.size());
    nearest(g[12], others);
  }

  void saves(const std::string& percent, const Row& r) const {
    const double memory = *r.memory.allocated / *a_.row(r.previous.variant)->memory.allocated;
    EXPECT_EQ(percent.empty(), memory > 0.95);
    if (!percent.empty()) is(percent, 100 * (1 - memory), "the memory");
  }

  size_t missing() const {
    size_t missing = 0;
    const auto planned = static_cast<size_t>(a_.experiment.until ? 1 : a_.experiment.rounds);
    for (const Row& r : a_.rows)
      if (r.same_as < 0 && (r.ok() || r.status == Status::broken || !r.started))
        missing += planned - std::min(planned, r.rounds.size());
    return missing;
  }

  std::vector<std::pair<std::string, Check>> sentences() const {
    std::vector<std::pair<std::string, Check>> all = of_rungs();
    for (const auto& more : {of_ranks(), of_the_loss()}) all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  std::vector<std::pair<std::string, Check>> of_ranks() const {
    return {
        {R"((\d+) ranks train )" + kRatio +
             R"( as many tokens/s as (\d+) ranks? \((.*), (\d+) % efficient\)(?:; exposed communication takes (\d+) % of the step)?)",
         [this](const Groups& g) {
           const ScalingSeries& told = series(g[6]);
           const Row &to = *most_ranks(told), &from = *a_.row(told.points.front().variant);
           const Measured speed = ratio(to, from);
           is(g, 2, speed);
           scales(told, g[1], g[5], g[7], speed);
           EXPECT_EQ(g[8].empty(), !to.exposed_seconds);
           if (!g[8].empty()) is(g[8], 100 * *to.exposed_seconds / *to.step_seconds, "the exposed share");
         }},
        {"on the same number of ranks, " + kName + " trains " + kRatio + " as fast as " + kName,
         [this](const Groups& g) {
           is(g, 2, ratio(row(g[1]), row(g[5])));
           slower_on_as_many(row(g[1]), row(g[5]));
         }},
        {kName + " trains " + kRatio + " as fast as " + kName +
             R"(, the fastest other program( with enough rounds)?( \(whose losses could not be compared\))?(?: on \d+ ranks? instead of \d+)?(?:, (.*))?)",
         [this](const Groups& g) {
           const Row& other = row(g[5]);
           EXPECT_TRUE(other.external && !row(g[1]).external);
           EXPECT_EQ(g[7].empty(), other.checked);
           const Measured speed = ratio(row(g[1]), other);
           is(g, 2, speed);
           EXPECT_EQ(g[8].empty(), speed.claim());
           if (!g[8].empty()) verdict(g[8], speed);
           bool faster = false;  // of which too few rounds are there
           for (const OtherProgram& program : a_.programs) {
             if (*a_.row(program.variant)->tokens_per_second <= *other.tokens_per_second) continue;
             faster = true;
             EXPECT_FALSE(program.comparison.speed && program.comparison.speed->interval);
           }
           EXPECT_EQ(faster, !g[6].empty());
         }},
    };
  }

  std::vector<std::pair<std::string, Check>> of_the_loss() const {
    static const std::string kLoss = R"(a loss of (\d+(?:\.\d+)?))",
                             kEnds = R"((.* ends at \d+\.\d+.*|.* reaches it only in some rounds))",
                             kAfter = R"(, after (\d+) steps? and ([\d.]+ \S+(?: \d+ \S+)?))";
    return {
        {"(only )?" + kName + " reaches " + kLoss + "( first)?" + kAfter + "(?:, and " + kName + " is next" +
             kAfter +
             R"((?: \(the difference is less than the (.*) between two losses\))?)?(?:; (?:(\d+) rungs do not reach it; of these, )?)" +
             kEnds + ")?",
         [this](const Groups& g) { reaches(g); }},
        {"no rung reaches " + kLoss + "( in every round)?: " + kEnds +
             ", the nearest; train for more steps, or set a higher target_loss",
         [this](const Groups& g) {
           EXPECT_EQ(std::stod(g[1]), a_.experiment.target_loss);
           bool sometimes = false;
           for (const Row* r : timed()) {
             EXPECT_FALSE(r->time_to_loss->seconds) << r->name;
             sometimes = sometimes || r->time_to_loss->in_some_rounds;
           }
           EXPECT_EQ(!g[2].empty(), sometimes);
           nearest(g[3], timed());
         }},
        {"the runs are too short to show whether a rung reaches " + kLoss +
             ": the test is the mean of 10 training losses, and they have fewer steps",
         [this](const Groups&) { EXPECT_TRUE(timed().empty()); }},
    };
  }

  std::vector<std::pair<std::string, Check>> of_rungs() const {
    return {
        {kName + R"( gives the largest (certain )?gain: )" + kRatio + " as fast as " + kName,
         [this](const Groups& g) { gives_most(g); }},
        {R"((.*\[.*\].*) (makes?) training faster(?:, too)?)", [this](const Groups& g) { each_gains(g); }},
        {R"(no rung is shown to make training faster( without training worse)?( and to reach the loss)?)",
         [this](const Groups& g) { no_gain(g[1], g[2]); }},
        {"the (whole ladder|ladder up to " + kName + ") trains " + kRatio + " as fast as ([a-z]+)(.*)",
         [this](const Groups& g) {
           const Row& end = end_of_ladder(g);
           EXPECT_EQ(g[6], a_.row(end.base.variant)->name);
           EXPECT_TRUE(to_base(end).claim());
           EXPECT_EQ(end.base.differs, "");
           is(g, 3, to_base(end));
           memory(g[7], end, *a_.row(end.base.variant));
         }},
        {"the (whole ladder|ladder up to " + kName + R"() shows no certain change of speed \()" + kRatio +
             ", (.*?)\\)(.*)",
         [this](const Groups& g) {
           const Row& end = end_of_ladder(g);
           is(g, 3, to_base(end));
           verdict(g[6], to_base(end));
         }},
        {"the (whole ladder|ladder up to " + kName + ") trains " + kRatio + " as many tokens/s as (.*)",
         [this](const Groups& g) {
           const Row& end = end_of_ladder(g);
           EXPECT_NE(end.base.differs, "");
           is(g, 3, to_base(end));
         }},
        {kName + R"( costs (\d+(?:\.\d)?) % of the speed(?: and saves (\d+) % of the peak memory.*)?)",
         [this](const Groups& g) {
           const Row& r = row(g[1]);
           EXPECT_TRUE(to_previous(r).slower());
           is(g[2], 100 * (1 - to_previous(r).value), "the cost");
           const double memory = *r.memory.allocated / *a_.row(r.previous.variant)->memory.allocated;
           if (!g[3].empty()) is(g[3], 100 * (1 - memory), "the memory");
         }},
        {R"((.*) makes? (no difference above \d+\.\d %))",
         [this](const Groups& g) {
           for (const auto& name : split(g[1])) verdict(g[2], to_previous(row(name)));
         }},
        {kName + R"( \()" + kRatio + R"(\): (undecided; .*))",
         [this](const Groups& g) {
           is(g, 2, to_previous(row(g[1])));
           verdict(g[5], to_previous(row(g[1])));
         }},
        {kName + ", together with (.*), trains " + kRatio + " as fast as " + kName + "(?:, (.*))?",
         [this](const Groups& g) {
           const Row& r = row(g[1]);
           EXPECT_EQ(split(g[2]), r.previous.between);
           EXPECT_EQ(g[6], a_.row(r.previous.variant)->name);
           is(g, 3, to_previous(r));
           if (!g[7].empty()) verdict(g[7], to_previous(r));
           EXPECT_EQ(g[7].empty(), to_previous(r).claim());
         }},
        {kName + " trains " + kRatio + " as many tokens/s as " + kName + R"(, on another problem \((.*)\))",
         [this](const Groups& g) {
           EXPECT_EQ(g[6], row(g[1]).previous.differs);
           EXPECT_NE(g[6], "");
           is(g, 2, ratio(row(g[1]), row(g[5])));
         }},
        {"the stack up to " + kName + " trains " + kRatio + " as (fast|many tokens/s) as " + kName +
             "(?: on .* ranks? instead of \\d+)?(?:, (.*))?",
         [this](const Groups& g) {
           is(g, 2, ratio(row(g[1]), row(g[6])));
           EXPECT_EQ(g[7].empty(), to_base(row(g[1])).claim());
         }},
        {"the full stack trains " + kRatio +
             " as (?:fast|many tokens/s) as the base(, but does not reach the loss)?",
         [this](const Groups& g) {
           const auto full = ok_rows([](const Row& r) { return r.group == "full"; });
           ASSERT_EQ(full.size(), 1U);
           EXPECT_TRUE(to_base(*full.front()).claim());
           EXPECT_EQ(!g[4].empty(), misses(*full.front()));
           is(g, 1, to_base(*full.front()));
         }},
        {"in the full stack " + kName + " makes the largest (certain )?contribution: " + kRatio +
             "( in tokens/s)?",
         [this](const Groups& g) {
           const Measured mine = worth(g[1]);
           EXPECT_TRUE(mine.faster());
           is(g, 3, mine);
           for (const std::string& other : ablated()) {
             const bool more = worth(other).rounds > 0 && worth(other).value > mine.value * (1 + 1e-9);
             EXPECT_FALSE(more && (g[2].empty() || worth(other).claim())) << other << " is worth more";
           }
         }},
        {"in the full stack no rung is shown to make training faster; " + kName + " costs most: " + kRatio +
             "( in tokens/s)?",
         [this](const Groups& g) {
           is(g, 2, worth(g[1]));
           EXPECT_TRUE(worth(g[1]).slower());
           for (const std::string& other : ablated()) {
             EXPECT_FALSE(worth(other).faster()) << other;
             EXPECT_FALSE(worth(other).slower() && worth(other).value < worth(g[1]).value * (1 - 1e-9))
                 << other;
           }
         }},
        {"no rung has a measurable effect in the full stack",
         [this](const Groups&) {
           for (const std::string& name : ablated()) {
             EXPECT_TRUE(worth(name).interval()) << name;
             EXPECT_FALSE(worth(name).claim()) << name;
           }
         }},
        {"none of these rungs has a measurable effect in the full stack: (.*)",
         [this](const Groups& g) {
           std::vector<std::string> known;
           for (const std::string& name : ablated()) {
             EXPECT_FALSE(worth(name).claim()) << name;
             if (worth(name).interval()) known.push_back(name);
           }
           EXPECT_THAT(split(g[1]), ::testing::UnorderedElementsAreArray(known));
         }},
        {kName + " is the fastest combination( with the base's problem)?(, as far as is certain)?: " +
             kRatio + " as fast as the base(.*)",
         [this](const Groups& g) {
           const Measured mine = to_base(row(g[1]));
           EXPECT_TRUE(mine.faster());
           is(g, 4, mine);
           for (const Row* other : rivals()) {
             const Measured m = to_base(*other);
             if (m.rounds > 0 && m.value > mine.value * (1 + 1e-9)) {
               EXPECT_FALSE(m.faster()) << other->name;
               EXPECT_FALSE(g[3].empty()) << other->name << " may be faster";
             }
           }
         }},
        {"no combination( with the base's problem)? is (shown to be )?faster than the base; the nearest is " +
             kName + ": " + kRatio + " as fast as the base(?:, (.*))?",
         [this](const Groups& g) {
           is(g, 4, to_base(row(g[3])));
           for (const Row* other : rivals()) {
             const Measured m = to_base(*other);
             EXPECT_FALSE(m.faster()) << other->name;
             if (g[2].empty() && !other->base.speed->same_run) {
               EXPECT_TRUE(m.slower()) << other->name;
             }
             if (m.interval()) {
               EXPECT_LE(m.value, to_base(row(g[3])).value * (1 + 1e-9)) << other->name;
             }
           }
         }},
        {"no combination solves the base's problem and trains as well, so none is called the fastest",
         [this](const Groups&) {
           for (const Row* other : rivals()) EXPECT_FALSE(to_base(*other).interval()) << other->name;
         }},
        {R"((.*) (ran out of memory|crashed|did not end in time|broke the correctness gate|did not run|failed))",
         [this](const Groups& g) { ended(split(g[1]), g[2]); }},
        {R"(only )" + kName + R"( succeeded, so there is nothing to compare; it trains ([\d,.]+) tokens/s)",
         [this](const Groups& g) {
           const auto ok = ok_rows([](const Row& r) { return !r.samples.empty(); });
           ASSERT_EQ(ok.size(), 1U);
           EXPECT_EQ(ok.front()->name, g[1]);
         }},
        {"no two rungs with the same problem succeeded in the same round, so there is no claim",
         [this](const Groups&) {
           for (const Row* r : ok_rows([](const Row& row) { return row.base.variant >= 0; }))
             EXPECT_TRUE(to_base(*r).rounds == 0 || !r->base.differs.empty() || r->base.worse) << r->name;
         }},
        {kName + " trains " + kRatio + " as (fast) as " + kName,
         [this](const Groups& g) {
           EXPECT_TRUE(to_base(row(g[1])).faster());
           EXPECT_EQ(row(g[1]).base.name, g[6]);
           is(g, 2, to_base(row(g[1])));
         }},
        {"no rung is shown to make training faster; (best so far: |no rung was faster than " + kName +
             R"( so far \(nearest: ))" + kName + ", " + kValue + " as fast as " + kName +
             R"( in (\d+) rounds?\)?; (.*))",
         [this](const Groups& g) {
           const Measured mine = ratio(row(g[3]), row(g[5]));
           is(g[4], mine.value, "the ratio");
           for (const Row* r : ok_rows([](const Row& one) { return one.base.variant >= 0; }))
             if (r->base.differs.empty() && !r->base.worse) {
               EXPECT_FALSE(to_base(*r).faster()) << r->name;
             }
           decides(g[7]);
         }},
        {"no claim yet: a claim needs 3 rounds; (best so far: |no rung was faster than " + kName +
             R"( so far \(nearest: ))" + kName + ", " + kValue + " as fast as " + kName +
             R"( in (\d+) rounds?\)?; (.*))",
         [this](const Groups& g) {
           const Measured mine = ratio(row(g[3]), row(g[5]));
           is(g[4], mine.value, "the ratio");
           EXPECT_EQ(std::stoul(g[6]), mine.rounds);
           EXPECT_EQ(g[1] == "best so far: ", mine.value > 1);
           for (const Row* r : ok_rows([](const Row& one) { return one.base.variant >= 0; })) {
             EXPECT_FALSE(to_base(*r).interval() && to_previous(*r).interval() && r->group != "external")
                 << r->name << " has a claim";
             if (r->base.differs.empty() && !r->base.worse && r->same_as < 0) {
               EXPECT_LE(to_base(*r).value, mine.value * (1 + 1e-9)) << r->name;
             }
           }
           decides(g[7]);
         }},
        {"no claim on (.*): (about .*)",
         [this](const Groups& g) {
           size_t named = 0;
           for (const auto& part : split(g[1], "), ")) {
             std::smatch m;
             ASSERT_TRUE(std::regex_match(
                 part, m,
                 compiled(kName + R"( \()" + kValue + " as fast as " + kName + R"( in (\d+) rounds?\)?)")))
                 << part;
             const Measured seen = ratio(row(m[1]), row(m[3]));
             is(m[2], seen.value, "the ratio");
             EXPECT_EQ(std::stoul(m[4]), seen.rounds);
             EXPECT_LT(seen.rounds, 3U);
             ++named;
           }
           EXPECT_EQ(named, ok_rows([this](const Row& r) {
                              return r.same_as < 0 && r.base.variant >= 0 && to_base(r).rounds > 0 &&
                                     to_base(r).rounds < 3;
                            }).size());
           decides(g[2]);
         }},
        {"the search found nothing that is (shown to be )?faster than the base(; best so far: (.*))?(; its "
         "time ended.*)?",
         [this](const Groups& g) { search_found_nothing(!g[1].empty()); }},
        {"the search found no stack that it could confirm to be faster than the base; best so far: (.*?), "
         "(.*?)(; its time ended.*)?",
         [this](const Groups& g) {
           bool lost = false;
           for_stacks([&](const Json& stage, const Json& stack) {
             if (stage.at("reference") != "base") return;
             lost = lost || stack.at("faster").get<bool>();
             if (stack.at("stack") == g[1]) {
               EXPECT_EQ(stack.at("result"), g[2]);
             }
           });
           EXPECT_TRUE(lost);
           EXPECT_EQ(a_.tried.at("best"), "base");
         }},
        {R"(the search found ([\w +]+?)((?: \(against [\w +]+: [^)]*\))*)(; its time ended.*)?)",
         [this](const Groups& g) { search_found(g[1], g[2]); }},
        {"the search has no answer yet: its time was enough for fewer than 3 rounds; best so far: ([\\w "
         "+]+), " +
             kValue + R"( as fast as the base in (\d+) rounds?(?:; (.*))?)",
         [this](const Groups& g) { search_has_no_answer(g); }},
        {"the search has no answer yet: its time was enough for fewer than 3 rounds(; about .* would decide "
         ".*)?",
         [this](const Groups&) {
           for_stacks([](const Json& stage, const Json& stack) {
             EXPECT_TRUE(stage.at("reference") != "base" || stack.at("speed").is_null()) << stack;
           });
         }},
        {R"((.*) trains? worse than ([A-Za-z +]+?)(?: \(\d\.\d+\))?[:,] .*)",
         [this](const Groups& g) {
           const std::regex& one = compiled(kName + R"((?: \(\d\.\d+\))?)");
           for (const auto& part : split(g[1])) {
             std::smatch m;
             ASSERT_TRUE(std::regex_match(part, m, one)) << part;
             EXPECT_TRUE(row(m[1]).previous.worse) << part;
             EXPECT_EQ(row(m[1]).previous.name, g[2]);
           }
         }},
        {"nothing was measured",
         [this](const Groups&) {
           EXPECT_TRUE(ok_rows([](const Row& r) { return !r.samples.empty(); }).empty());
         }},
    };
  }

  void gives_most(const Groups& g) const {
    const Row& mine = row(g[1]);
    EXPECT_EQ(g[6], a_.row(mine.previous.variant)->name);
    is(g, 3, to_previous(mine));
    best_gain(mine, g[2].empty());
  }

  /// `most`: it is said that no other rung gains more; else, that none is known to.
  void best_gain(const Row& mine, bool most) const {
    const Measured m = to_previous(mine);
    EXPECT_TRUE(m.faster());
    EXPECT_EQ(mine.previous.differs, "");
    for (const Row* other : ladder()) {
      if (other->previous.worse || misses(*other) || to_previous(*other).value <= m.value * (1 + 1e-9))
        continue;
      EXPECT_FALSE(to_previous(*other).faster()) << other->name << " gains more";
      if (to_previous(*other).rounds > 0) {
        EXPECT_FALSE(most) << other->name << " may gain more";
      }
    }
  }

  /// "A (1.10x [1.05, 1.15]), B (...)"
  void each_gains(const Groups& g) const {
    const std::regex& one = compiled(kName + R"( \()" + kRatio + R"((, but it trains worse)?\))");
    size_t named = 0;
    for (std::sregex_iterator it(g[1].begin(), g[1].end(), one), end; it != end; ++it, ++named) {
      Groups groups;
      for (const auto& group : *it) groups.push_back(group);
      EXPECT_TRUE(to_previous(row(groups[1])).faster());
      EXPECT_EQ(!groups[5].empty(), row(groups[1]).previous.worse.has_value());
      is(groups, 2, to_previous(row(groups[1])));
    }
    EXPECT_EQ(named == 1, g[2].ends_with("s")) << "the verb agrees";
    EXPECT_GT(named, 0U);
  }

  const Row& end_of_ladder(const Groups& g) const {
    int64_t last = 0;
    for (const Row& r : a_.rows)
      if (r.group == "ladder") last = r.variant;
    if (g[1] == "whole ladder") return *a_.row(last);
    // Where a rung stands beside others, no rung has all of them.
    const bool branches = std::ranges::any_of(a_.variants, [](const Variant& variant) {
      return variant.group == "ladder" && variant.previous != variant.index - 1;
    });
    EXPECT_TRUE(branches || row(g[2]).variant != last) << "that is the whole ladder";
    return row(g[2]);
  }

  void memory(const std::string& text, const Row& r, const Row& other) const {
    std::smatch m;
    if (!std::regex_search(text, m, compiled(R"( and takes (\d+) % (less|more) peak memory)"))) return;
    const double change = *r.memory.allocated / *other.memory.allocated - 1;
    EXPECT_EQ(m[2] == "more", change > 0);
    is(m[1], 100 * std::abs(change), "the memory");
  }

  /// By two one-sided tests at the level of the experiment.
  void verdict(const std::string& text, const Measured& m) const {
    ASSERT_TRUE(m.interval());
    EXPECT_FALSE(m.claim());
    const double error = a_.experiment.until ? 0.02 : 0.05, n = static_cast<double>(m.rounds);
    const double half = std::log(m.high / m.low) / 2;
    const double farthest =
        std::abs(std::log(m.value)) + half * t_quantile(n - 1, 2 * error) / t_quantile(n - 1, error);
    if (std::smatch found; std::regex_match(text, found, compiled(R"(no difference above (\d+\.\d) %)"))) {
      EXPECT_GE(std::stod(found[1]) / 100 + 1e-9, std::expm1(farthest));
      EXPECT_LE(std::stod(found[1]), 5.0 + 1e-9);
    } else {
      EXPECT_TRUE(text.starts_with("undecided; ") && text.ends_with(" decide it")) << text;
      EXPECT_GT(farthest, std::log1p(0.05));
    }
  }

  std::vector<std::string> ablated() const {
    std::vector<std::string> names;
    for (const Row& r : a_.rows)
      if (r.group == "without") names.push_back(r.name.substr(std::string("without ").size()));
    return names;
  }
  /// The full stack over the one without it; no rounds where one of them did not end well.
  Measured worth(const std::string& name) const {
    const auto full = ok_rows([](const Row& r) { return r.group == "full"; });
    const Row& without = row("without " + name);
    // One without a rung that changes the problem is not compared with the full stack.
    const bool compared = !full.empty() && without.ok() && without.previous.variant == full.front()->variant;
    return compared ? ratio(*full.front(), without) : Measured{};
  }
  std::vector<const Row*> rivals() const {
    return ok_rows([this](const Row& r) {
      return r.group == "grid" && r.base.variant >= 0 && r.base.differs.empty() && !r.base.worse &&
             !misses(r);
    });
  }

  static Status ended_so(const std::string& how) {
    static const std::map<std::string, Status> kEnds = {
        {"ran out of memory", Status::oom},       {"crashed", Status::crashed},
        {"did not end in time", Status::timeout}, {"broke the correctness gate", Status::broken},
        {"did not run", Status::skipped},         {"failed", Status::failed}};
    return kEnds.at(how);
  }
  void ended(const std::vector<std::string>& names, const std::string& how) const {
    std::vector<std::string> expected;
    for (const Row& r : a_.rows)
      if (r.status == ended_so(how) && r.started) expected.push_back(r.name);
    EXPECT_THAT(names, ::testing::ElementsAreArray(expected));
  }

  void decides(const std::string& text) const {
    if (a_.experiment.until) {
      EXPECT_TRUE(std::regex_match(
          text, compiled(R"(about [\d.]+ (s|min|h) more would decide \(--resume --at-most \d+[smh]\))")))
          << text;
    } else {
      EXPECT_TRUE(
          std::regex_match(text, compiled(R"(--resume --rounds 3 would decide, in about [\d.]+ (s|min|h))")))
          << text;
    }
  }

  void for_stacks(const std::function<void(const Json& stage, const Json& stack)>& act) const {
    for (const Json& stage : a_.tried.at("stages"))
      for (const Json& stack : stage.at("stacks"))
        if (!stack.at("speed").is_null()) act(stage, stack);
  }
  void search_found_nothing(bool maybe) const {
    bool open = false;
    for_stacks([&](const Json& stage, const Json& stack) {
      if (stage.at("reference") != "base") return;
      EXPECT_FALSE(stack.at("faster").get<bool>()) << stack;
      open = open || stack.at("speed").get<double>() > 1;
    });
    EXPECT_EQ(maybe, open);
    EXPECT_TRUE(a_.tried.at("answered").get<bool>());
  }
  void search_found(const std::string& name, const std::string& results) const {
    EXPECT_EQ(name, a_.tried.at("best"));
    for_stacks([&](const Json& stage, const Json& stack) {
      const std::string told = "(against " + stage.at("reference").get<std::string>() + ": " +
                               stack.at("result").get<std::string>() + ")";
      if (stack.at("stack") == name) {
        EXPECT_THAT(results, ::testing::HasSubstr(told));
      }
    });
  }
  void search_has_no_answer(const Groups& g) const {
    bool met = false;
    for_stacks([&](const Json& stage, const Json& stack) {
      if (stage.at("reference") != "base") return;
      EXPECT_LT(stack.at("rounds").get<int64_t>(), 3);
      EXPECT_LE(stack.at("speed").get<double>(), std::stod(g[2]) + 0.006);
      if (stack.at("stack") != g[1]) return;
      met = true;
      is(g[2], stack.at("speed"), "the speed");
      EXPECT_EQ(std::stol(g[3]), stack.at("rounds").get<int64_t>());
    });
    EXPECT_TRUE(met);
  }

  std::string table() const {
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
    text += "  " + a_.headline + "\n";
    for (const std::string& finding : a_.findings) text += "  - " + finding + "\n";
    return text;
  }

  const Analysis& a_;
};
}  // namespace optrush::test
