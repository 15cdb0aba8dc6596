// Every sentence that a report opens with is held against the report's table: random experiments with rungs
// that pay, cost, fail, break, tie or lack rounds, and a reader of the sentences that knows nothing of who
// wrote them. A sentence that it can't read is an error.
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <regex>

#include "report/analysis/analysis.h"
#include "report_fixture.h"

namespace optrush {
namespace {
using test::rung;
using test::setting;

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
const std::string kValue = R"((\d+\.\d+)x)", kRatio = kValue + R"( \[(\d+\.\d+), (\d+\.\d+)\])";
const std::string kName = R"(([A-Za-z]+(?: [a-z]+)?(?: \+ [A-Za-z]+)*))";

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

  static std::vector<std::string> split(const std::string& list, const std::string& by = ", ") {
    std::vector<std::string> parts;
    size_t start = 0;
    for (size_t at = 0; (at = list.find(by, start)) != std::string::npos; start = at + by.size())
      parts.push_back(list.substr(start, at - start));
    parts.push_back(list.substr(start));
    return parts;
  }

  std::vector<const Row*> ok_rows(const std::function<bool(const Row&)>& wanted) const {
    std::vector<const Row*> rows;
    for (const Row& r : a_.rows)
      if (r.ok() && wanted(r)) rows.push_back(&r);
    return rows;
  }
  /// Rows of a ladder with a cell against the row right below, of one problem.
  std::vector<const Row*> ladder() const {
    return ok_rows([](const Row& r) {
      return r.group == "ladder" && r.previous.variant >= 0 && r.previous.differs.empty() &&
             r.previous.between.empty();
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
    for (const auto& [pattern, check] : sentences()) {
      std::smatch m;
      if (!std::regex_match(text, m, compiled(pattern))) continue;
      Groups groups;
      for (const auto& group : m) groups.push_back(group);
      return check(groups);
    }
    ADD_FAILURE() << "the reader does not know this sentence";
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
      const std::string told = without_intervals(so_far.substr(0, so_far.size() - 1)) + "; ";
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
        {"no rung is shown to make training faster( without training worse)?",
         [this](const Groups& g) {
           for (const Row* r : ladder())
             EXPECT_FALSE(to_previous(*r).faster() && !(g[1].size() > 1 && r->previous.worse)) << r->name;
         }},
        {kName + " costs " + kPercent + " of the speed(?: and saves " + kPercent + " of the memory)?",
         [this](const Groups& g) {
           const Row& r = row(g[1]);
           EXPECT_TRUE(to_previous(r).slower());
           EXPECT_EQ(r.previous.differs, "");
           is(g[2], 100 * (1 - to_previous(r).value), "the cost");
           saves(g[3], r);
         }},
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
    return {
        {kName + R"( gives the largest (certain )?gain: )" + kRatio + " as fast as " + kName,
         [this](const Groups& g) { gives_most(g); }},
        {R"((.*\[.*\].*) (makes?) training faster(?:, too)?)", [this](const Groups& g) { each_gains(g); }},
        {R"(no rung is shown to make training faster( without training worse)?)",
         [this](const Groups& g) {
           for (const Row* r : ladder())
             EXPECT_FALSE(to_previous(*r).faster() && !(g[1].size() > 1 && r->previous.worse)) << r->name;
         }},
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
        {"the full stack trains " + kRatio + " as (?:fast|many tokens/s) as the base",
         [this](const Groups& g) {
           const auto full = ok_rows([](const Row& r) { return r.group == "full"; });
           ASSERT_EQ(full.size(), 1U);
           EXPECT_TRUE(to_base(*full.front()).claim());
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
      if (other->previous.worse || to_previous(*other).value <= m.value * (1 + 1e-9)) continue;
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
    return ok_rows([](const Row& r) {
      return r.group == "grid" && r.base.variant >= 0 && r.base.differs.empty() && !r.base.worse;
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

const std::vector<std::string> kNames = {"alfa", "bravo",   "charlie", "delta",
                                         "echo", "foxtrot", "golf",    "hotel"};

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  bool in(int of) { return up_to(of) == 0; }
  int up_to(int of) { return std::uniform_int_distribution(0, of - 1)(random_); }
  double between(double low, double high) { return std::uniform_real_distribution(low, high)(random_); }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[static_cast<size_t>(up_to(static_cast<int>(list.size())))];
  }

 private:
  std::mt19937_64 random_;
};

void draw_outcome(test::Outcome& outcome, int64_t rounds, Dice& dice) {
  outcome.tokens_per_second = dice.in(3) ? 1000 : 1000 * dice.between(0.6, 1.8);
  outcome.scatter = dice.of(std::vector{0.0, 0.002, 0.004, 0.02, 0.1, 0.3});
  outcome.peak_bytes = static_cast<double>(1 << 30) * dice.of(std::vector{1.0, 1.0, 0.6, 1.5});
  if (dice.in(4)) outcome.rounds = 1 + dice.up_to(static_cast<int>(rounds));
  if (dice.in(6)) {
    outcome.status = dice.of(std::vector<std::string>{"oom", "failed", "crashed", "timeout", "skipped"});
    outcome.reason = "by the dice";
    if (dice.in(3)) outcome.bad_round = dice.up_to(static_cast<int>(rounds));
  }
  if (dice.in(10)) outcome.loss_error = 0.5;
  if (dice.in(12)) outcome.has_plan = false;
}

test::SyntheticReport random_report(uint64_t seed) {
  Dice dice(seed);
  test::SyntheticReport report("dice", dice.of(std::vector<int64_t>{1, 2, 3, 3, 4, 6}));
  if (dice.in(2)) report.experiment.until = Until{.within = 0.03, .at_most_s = 100};
  report.equals_run_once = dice.in(2);
  std::vector<Rung> rungs;
  const int count = 1 + dice.up_to(6);
  for (int i = 0; i < count; ++i) {
    const std::string& name = kNames[static_cast<size_t>(i)];
    rungs.push_back(rung(name, name));
    if (dice.in(10)) rungs.back().settings["train"]["micro_batch"] = 16;
  }
  const int form = dice.up_to(4);
  if (form == 0 && count > 1) {
    report.experiment.parts.push_back({.arrangement = Arrangement::ablation, .rungs = rungs});
  } else if (form == 1 && count > 1) {
    const auto half = rungs.begin() + count / 2;
    Rung plain = setting("plain", Json::object());
    std::vector<Rung> one(rungs.begin(), half), other(half, rungs.end());
    if (dice.in(2)) one.insert(one.begin(), plain);
    report.experiment.parts.push_back({.arrangement = Arrangement::grid, .axes = {one, other}});
  } else {
    if (dice.in(3))
      for (Rung& each : rungs) each.over = "base";
    report.ladder(rungs);
  }
  for (const Variant& variant : expand(report.experiment)) {
    if (variant.index == 0 && !dice.in(6)) continue;
    draw_outcome(report[variant.name], report.experiment.rounds, dice);
  }
  return report;
}

TEST(Findings, SayWhatTheTableSays) {
  constexpr uint64_t kTables = 150;
  for (uint64_t seed = 0; seed < kTables && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Analysis a = test::analysis_of(random_report(seed));
    Reader(a).read_all();
  }
}

/// Some stages over "base", then over what they found.
Json random_search(Dice& dice) {
  const auto stack = [&](const std::string& name, int64_t rounds) {
    const double speed = dice.between(0.7, 1.9);
    const bool faster = rounds >= 3 && speed > 1.05;
    return Json{{"stack", name},
                {"change", "+ " + name},
                {"rounds", rounds},
                {"faster", faster},
                {"speed", dice.in(5) ? Json() : Json(speed)},
                {"result", faster ? "1.21x [1.18, 1.24], faster" : "1.01x [0.98, 1.04]"}};
  };
  Json search = {{"schema_version", 1},
                 {"best", "base"},
                 {"finished", dice.in(2)},
                 {"answered", true},
                 {"stages", Json::array()}};
  const int64_t rounds = 1 + dice.up_to(5);
  Json stacks = Json::array();
  for (int i = 0; i < 1 + dice.up_to(5); ++i) stacks.push_back(stack(kNames[static_cast<size_t>(i)], rounds));
  search["stages"].push_back({{"reference", "base"}, {"stacks", stacks}});
  for (const Json& each : stacks)
    if (each.at("faster") == true && !each.at("speed").is_null() && !dice.in(4))
      search["best"] = each.at("stack");
  if (rounds < 3) {
    search["answered"] = search["finished"] = false;
    search["decides_s"] = dice.between(1, 4000);
  }
  return search;
}

TEST(Findings, OfASearchSayWhatItsStagesSay) {
  Analysis a = test::analysis_of(test::three_rungs());
  for (uint64_t seed = 0; seed < 300 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    a.tried = random_search(dice);
    a.findings = {findings(a).front()};
    a.headline = headline(a);
    SCOPED_TRACE(a.tried.dump(1));
    Reader(a).read_all();
  }
}

/// The reader has to fail.
void expect_noticed(const Analysis& a, const char* wrong) {
  ::testing::TestPartResultArray failures;
  {
    const ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    Reader(a).read_all();
  }
  EXPECT_GT(failures.size(), 0) << wrong;
}

TEST(Findings, TheReaderNotices) {
  // What holds of no table.
  Analysis a = test::analysis_of(test::three_rungs());
  for (const char* wrong :
       {"three gives the largest gain: 9.99x [9.00, 9.99] as fast as two.",
        "no rung is shown to make training faster.", "one crashed.",
        "the ladder up to one trains 1.00x [0.99, 1.01] as fast as base.", "all is well."}) {
    a.findings = {wrong};
    a.headline = wrong;
    expect_noticed(a, wrong);
  }
}

TEST(Findings, TheReaderNoticesInAHeadline) {
  auto report = test::three_rungs();
  report["one"].tokens_per_second = 1500;
  report["two"].tokens_per_second = 1500;
  report["three"].tokens_per_second = 1400;
  Analysis a = test::analysis_of(report);
  Reader(a).read_all();
  ASSERT_FALSE(HasFailure()) << a.headline;
  for (const char* wrong :
       {"On this machine the full stack trains 1.50x as fast; one brings most of it (1.50x).",
        "On this machine the full stack trains 1.40x as fast with 16 % less memory.",
        "On this machine the stack up to three is 7 % slower than base.",
        "On this machine two brings all of it (1.00x).", "On this machine two is undecided.",
        "On this machine three costs 7 % of the speed and saves 60 % of the memory.",
        "On this machine three saves 50 % of the memory.", "On this machine two ran out of memory.",
        "On this machine two trains worse.", "On this machine no rung is shown to make training faster.",
        "2 runs have no result yet; so far, on this machine one brings most of it (1.50x).",
        "On this machine all is well."}) {
    a.headline = wrong;
    expect_noticed(a, wrong);
  }
}
}  // namespace
}  // namespace optrush
