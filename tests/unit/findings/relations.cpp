#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "../split.h"
#include "sentences.h"

namespace optrush::test {
namespace {
constexpr double kEqual = 1 + 1e-9;

const Row& other_row(const Facts& f, const Row& r, const std::string& name) {
  if (name == "the base") return f.analysis().rows.front();
  return r.previous.name == name && r.previous.variant >= 0 ? *f.analysis().row(r.previous.variant)
                                                            : f.row(name);
}

/// How the table compares the two rows; null: it does not, as for rows of other programs.
const Comparison* comparison(const Facts& f, const Row& r, const Row& other) {
  for (const OtherProgram& program : f.analysis().programs)
    if (program.variant == other.variant && program.fastest == r.variant) return &program.comparison;
  for (const Comparison* c : {&r.base, &r.previous})
    if (c->variant == other.variant) return c;
  return nullptr;
}

/// "48", "less" and whether they are stated.
void memory(const std::string& percent, const std::string& word, const Row& r, const Row& other) {
  const double change = *r.memory.allocated / *other.memory.allocated - 1;
  EXPECT_EQ(!percent.empty(), std::abs(change) >= 0.05) << r.name;
  if (percent.empty()) return;
  is(percent, 100 * std::abs(change), "the memory");
  EXPECT_EQ(word == "more", change > 0);
}

/// A stack that may be the answer: like for like with the base, and as good.
bool is_rival(const Facts& f, const Row& r) {
  return r.base.variant >= 0 && r.base.differs.empty() && !r.base.worse && !f.misses(r) &&
         r.devices == f.analysis().row(r.base.variant)->devices;
}

void no_faster_stack(const Facts& f, const Row& r, const Row& other) {
  for (const Row* rival : f.ok_rows([&](const Row& one) { return one.group == r.group && is_rival(f, one); }))
    if (f.to_base(*rival).faster() && rival->base.variant == other.variant) {
      EXPECT_LE(f.to_base(*rival).value, f.ratio(r, other).value * kEqual) << rival->name;
    }
}

void remark(const Facts& f, const std::string& text, const Row& r) {
  if (text.find("combination") == std::string::npos) return;
  EXPECT_TRUE(f.to_base(r).faster());
  bool separate = true;
  for (const Row* other : f.rivals()) {
    if (other == &r || other->base.speed->same_run) continue;
    const Measured m = f.to_base(*other);
    if (m.faster()) {
      EXPECT_LE(m.value, f.to_base(r).value * kEqual) << other->name;
    }
    if (m.rounds > 0) separate = separate && m.interval() && m.high < f.to_base(r).low;
  }
  EXPECT_EQ(text.find("among") == std::string::npos, separate) << text;
}

/// The groups of kTrains, without and with tokens/s.
void trains(const Facts& f, const Groups& g) {
  const Row& r = f.stack(g[1]);
  const Row& other = other_row(f, r, g[8]);
  const Measured m = f.ratio(r, other);
  if (!g[2].empty()) {
    EXPECT_EQ(split(g[2]), r.previous.between);
  }
  if (!g[3].empty()) {
    is(without(g[3], ","), *r.tokens_per_second, "tokens/s");
    if (r.group == "ladder" && m.faster()) no_faster_stack(f, r, other);
  }
  is(f, g, 4, m);
  const Comparison* c = comparison(f, r, other);
  EXPECT_EQ(g[7] == "fast", c == nullptr || c->differs.empty());
  EXPECT_EQ(!g[9].empty(), r.devices != other.devices);
  EXPECT_EQ(g[10], c == nullptr ? "" : c->differs);
  memory(g[11], g[12], r, other);
  verdict(f, g[13], m);
  EXPECT_EQ(!g[14].empty(), c != nullptr && c->worse.has_value());
  EXPECT_EQ(g[15].find("reach the loss") != std::string::npos, r.group == "full" && f.misses(r));
  remark(f, g[15], r);
}

/// The claim that neither of two is faster.
void not_shown(const Facts& f, const Groups& g) {
  const Row& r = f.stack(g[1]);
  const Row& other = other_row(f, r, g[3]);
  const Measured m = f.ratio(r, other);
  EXPECT_TRUE(m.interval() && !m.claim());
  if (!g[2].empty()) is(without(g[2], ","), *r.tokens_per_second, "tokens/s");
  memory(g[6], g[7], r, other);
}

void takes(const Facts& f, const Groups& g) {
  const Row& r = f.stack(g[1]);
  const Row& other = other_row(f, r, g[3]);
  memory(g[2], "less", r, other);
  EXPECT_LE(*r.memory.allocated, 0.8 * *other.memory.allocated * kEqual);
  for (const Row* rival : f.ok_rows([&](const Row& one) {
         return (one.group == "ladder" || one.group == "full") && one.base.variant == r.base.variant &&
                !one.base.worse && !f.misses(one);
       }))
    EXPECT_GE(*rival->memory.allocated, *r.memory.allocated) << rival->name;
  if (!g[4].empty()) is(f, g, 4, f.ratio(r, other));
  EXPECT_EQ(g[9], r.base.differs);
}

enum class Kind { faster, slower, alike, undecided };

bool is_kind(const Facts& f, const Measured& m, Kind kind) {
  if (!m.interval()) return false;
  switch (kind) {
    case Kind::faster:
      return m.faster();
    case Kind::slower:
      return m.slower();
    case Kind::undecided:
      return f.undecided(m);
    default:
      return !m.claim() && !f.undecided(m);
  }
}

/// The rungs of one verdict: in a ladder each against the row below, in a full stack its contribution.
void rungs(const Facts& f, const std::string& in_stack, const std::string& list, Kind kind) {
  const auto measured = [&](const Row& r) {
    return in_stack.empty() ? f.to_previous(r) : f.worth(r.name.substr(std::string("without ").size()));
  };
  const auto ladder = f.ladder();
  std::vector<std::string> named;
  const bool figures = list.find('(') != std::string::npos;
  static const std::string kFigures = "(?:^|, | and )" + kName + R"( \()" + kRatio +
                                      R"((?:, (\d+(?:\.\d)?) % (less|more) memory)?([^()]*)\))";
  for (const Groups& g : all_in(list, kFigures)) {
    named.push_back(g[1]);
    const Row& r = f.row(in_stack.empty() ? g[1] : "without " + g[1]);
    is(f, g, 2, measured(r));
    EXPECT_TRUE(is_kind(f, measured(r), kind)) << g[0];
    if (!in_stack.empty()) continue;
    memory(g[5], g[6], r, *f.analysis().row(r.previous.variant));
    EXPECT_EQ(g[7].find("worse") != std::string::npos, r.previous.worse.has_value()) << g[0];
  }
  if (!figures) named = split(without(list, R"( and \d+ more$)"));
  names(f, named, list, [&](const Row& r) {
    if (!in_stack.empty()) return r.group == "without" && is_kind(f, measured(r), kind);
    return std::ranges::find(ladder, &r) != ladder.end() && is_kind(f, measured(r), kind) &&
           !(kind == Kind::faster && f.misses(r));
  });
}

/// "A gains most": its interval is above each other one.
void most(const Facts& f, const std::string& in_stack, const std::string& name) {
  const auto check = [&](const Measured& mine, const Measured& other) {
    EXPECT_TRUE(other.rounds == 0 || (other.interval() && other.high < mine.low)) << name;
  };
  if (!in_stack.empty()) {
    for (const std::string& other : f.ablated())
      if (other != name && f.row("without " + other).previous.differs.empty())
        check(f.worth(name), f.worth(other));
    return;
  }
  EXPECT_FALSE(f.row(name).previous.worse);
  for (const Row* other : f.ladder())
    if (other->name != name && !other->previous.worse && !f.misses(*other))
      check(f.to_previous(f.row(name)), f.to_previous(*other));
}
}  // namespace

Sentences of_relations(const Facts& f) {
  static const std::string
      kStack = "(the full stack|the stack up to " + kOneName + "|" + kOneName + ")",
      kMemory = R"((?:, with (\d+(?:\.\d)?) % (less|more) memory(?: \([^()]*\))?)?)",
      kLike = R"((?: \(not like for like: ([^()]*)\))?)", kRanks = R"((?: on (\d+) ranks? instead of \d+)?)",
      kVerdict =
          "(?:, (no difference[^,]*|undecided(?:; (?:(?:about )?[\\d,]+ (?:more )?rounds? would (?:not "
          ")?decide "
          "it|the steps do equal work.*))?))?",
      kWorse = "(, but trains worse)?",
      kRemark =
          "(, (?:the fastest|among the fastest) combinations?(?: with the base's problem)?|, the nearest|, "
          "but "
          R"(does not reach the loss| \(whose losses could not be compared\))?)",
      kIn = "(in the full stack )?";
  return {
      {"no rung is shown to make training faster",
       [&f](const Groups&) {
         for (const Row* r : f.ladder()) EXPECT_TRUE(!f.to_previous(*r).faster() || f.misses(*r)) << r->name;
       }},
      {kStack + "(?:, together with ([^0-9]*),)? trains (?:([\\d,.]+) tokens/s(?: \\([^()]*\\))?, )?" +
           kRatio + " as (fast|many tokens/s) as " + kName + kRanks + kLike + kMemory + kVerdict + kWorse +
           kRemark,
       [&f](const Groups& g) { trains(f, g); }},
      {kStack +
           "(?: trains ([\\d,.]+) tokens/s(?: \\([^()]*\\))? and)? is not shown to be faster or slower "
           "than " +
           kName + kRanks + kLike + kMemory + kVerdict + kWorse + kRemark,
       [&f](const Groups& g) { not_shown(f, g); }},
      {kStack + R"( takes [\d.,]+ \S+, (\d+(?:\.\d)?) % less memory than )" + kName + "(?:, and trains " +
           kRatio + " as (fast|many tokens/s) as " + kName + kVerdict + ")?" + kLike,
       [&f](const Groups& g) {
         // The verdict is the group before the last.
         takes(f, {g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7], g[8], g[10]});
       }},
      {kIn + "(.*) makes? training (faster|slower)(?:; " + kName + " gains most)?",
       [&f](const Groups& g) {
         rungs(f, g[1], g[2], g[3] == "faster" ? Kind::faster : Kind::slower);
         if (!g[4].empty()) most(f, g[1], g[4]);
       }},
      {kIn + kName + R"( \()" + kRatio + R"([^()]*\) gains most)",
       [&f](const Groups& g) {
         is(f, g, 3, g[1].empty() ? f.to_previous(f.row(g[2])) : f.worth(g[2]));
         most(f, g[1], g[2]);
       }},
      {kIn + "(.*) makes? (no difference above .*)",
       [&f](const Groups& g) { rungs(f, g[1], g[2], Kind::alike); }},
      {kIn + "(.*) (?:is|are) undecided", [&f](const Groups& g) { rungs(f, g[1], g[2], Kind::undecided); }},
  };
}
}  // namespace optrush::test
