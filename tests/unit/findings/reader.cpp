#include "reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>

#include "sentences.h"

namespace optrush::test {
namespace {
Sentences all_sentences(const Facts& f) {
  Sentences all;
  for (const auto& of :
       {of_ladders, of_combinations, of_open_questions, of_searches, of_scalings, of_target_losses})
    std::ranges::move(of(f), std::back_inserter(all));
  return all;
}

class Reader {
 public:
  explicit Reader(const Analysis& analysis)
      : a_(analysis), facts_(analysis), sentences_(all_sentences(facts_)), clauses_(clauses(facts_)) {}

  void read_all() const {
    ASSERT_FALSE(a_.findings.empty());
    for (const std::string& finding : a_.findings) {
      ASSERT_TRUE(finding.ends_with(".")) << finding;
      read(finding.substr(0, finding.size() - 1));
    }
    read_headline();
    if (::testing::Test::HasFailure()) ADD_FAILURE() << facts_.table();
  }

 private:
  void read(const std::string& sentence) const {
    SCOPED_TRACE(sentence);
    std::string text = sentence;
    if (std::smatch m; fits(text, m, R"((\d+) runs? ha(?:s|ve) no result yet; so far: (.*))")) {
      EXPECT_EQ(std::stoul(m[1]), facts_.missing());
      text = m[2];
    }
    if (!check_by(sentences_, without_capital(text))) ADD_FAILURE() << "no pattern matches this sentence";
  }

  /// Lower case, as in the middle of a sentence.
  std::string without_capital(std::string text) const {
    if (std::ranges::none_of(a_.rows, [&](const Row& r) { return text.starts_with(r.name); }))
      text.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(text.front())));
    return text;
  }

  /// "1.96x" of "1.96x [1.88, 2.04]"
  static std::string without_intervals(const std::string& text) {
    return without(text, R"( \[[\d.,]+, [\d.,]+\])");
  }

  /// The headline: its own clauses, and findings without their intervals. Findings are read with the
  /// intervals.
  void read_headline() const {
    SCOPED_TRACE("headline: " + a_.headline);
    if (a_.headline == without_intervals(a_.findings.front())) return;
    std::smatch m;
    ASSERT_TRUE(fits(
        a_.headline, m,
        R"((?:On this machine|(\d+) runs? ha(?:s|ve) no result yet; so far, on this machine),? (.*)\.)"));
    EXPECT_EQ(m[1].matched ? std::stoul(m[1]) : 0, facts_.missing());
    std::string rest = m[2].str() + "; ";
    for (const std::string& finding : a_.findings) {
      const std::string so_far = without(finding, R"(^\d+ runs? ha(s|ve) no result yet; so far: )");
      const std::string told = without_capital(without_intervals(so_far.substr(0, so_far.size() - 1))) + "; ";
      if (const size_t at = rest.find(told); at != std::string::npos) rest.erase(at, told.size());
    }
    size_t clauses = 0;
    for (size_t end = 0; (end = rest.find("; ")) != std::string::npos; rest.erase(0, end + 2), ++clauses)
      read_clause(rest.substr(0, end));
    EXPECT_EQ(rest, "");
    EXPECT_LE(clauses, 6U) << "too many clauses to remember";
  }

  void read_clause(const std::string& clause) const {
    SCOPED_TRACE(clause);
    if (!check_by(clauses_, clause)) ADD_FAILURE() << "no pattern matches this clause";
  }

  const Analysis& a_;
  Facts facts_;
  Sentences sentences_, clauses_;
};
}  // namespace

void read_findings(const Analysis& analysis) { Reader(analysis).read_all(); }
}  // namespace optrush::test
