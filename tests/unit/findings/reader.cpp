#include "reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "report/claims/claims.h"
#include "sentences.h"

namespace optrush::test {
namespace {
class Reader {
 public:
  explicit Reader(const Analysis& analysis)
      : a_(analysis), facts_(analysis), relations_(of_relations(facts_)), answers_(of_answers(facts_)) {}

  void read_all(const std::vector<std::string>& findings, const std::string& headline) const {
    ASSERT_FALSE(findings.empty());
    std::string text;
    for (const std::string& finding : findings) {
      ASSERT_TRUE(finding.ends_with(".")) << finding;
      read(without_capital(finding.substr(0, finding.size() - 1)), /*interval=*/true);
      text += "  - " + finding + "\n";
    }
    read_headline(headline);
    if (::testing::Test::HasFailure()) ADD_FAILURE() << facts_.table() << "  " << headline << "\n" << text;
  }

 private:
  /// Ratios of two rows have their intervals in a finding, and only there.
  void read(const std::string& sentence, bool interval) const {
    SCOPED_TRACE(sentence);
    if (check_by(answers_, sentence)) return;
    EXPECT_TRUE(check_by(relations_, sentence)) << "no pattern matches this sentence";
    std::smatch m;
    EXPECT_FALSE(has(sentence, m, interval ? R"(\d\.\d+x(?! \[))" : R"(\d\.\d+x \[)")) << "intervals";
  }

  /// Lower case, as in the middle of a sentence.
  std::string without_capital(std::string text) const {
    if (std::ranges::none_of(a_.rows, [&](const Row& r) { return text.starts_with(r.name); }))
      text.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(text.front())));
    return text;
  }

  void read_headline(const std::string& headline) const {
    SCOPED_TRACE("headline: " + headline);
    static const std::string kBegin = "On Synthetic device (2 cores), ";
    ASSERT_TRUE(headline.starts_with(kBegin) && headline.ends_with("."));
    std::string rest = headline.substr(kBegin.size(), headline.size() - kBegin.size() - 1);
    // Parts of a sentence that have a semicolon of their own.
    for (size_t at = 0, clauses = 1; at < rest.size(); ++clauses) {
      size_t end = std::min(rest.find("; ", at), rest.size());
      const auto goes_on = [&] {
        return end < rest.size() &&
               fits(rest.substr(end + 2, 8),
                    "(its time|best so |about \\d.|not in e|the last|--resume|nearest ).*");
      };
      while (goes_on()) end = std::min(rest.find("; ", end + 2), rest.size());
      read(rest.substr(at, end - at), /*interval=*/false);
      at = end + 2;
      EXPECT_LE(clauses, 8U) << "too many clauses to remember";
    }
  }

  const Analysis& a_;
  Facts facts_;
  Sentences relations_, answers_;
};
}  // namespace

void read(const Analysis& analysis, const std::vector<std::string>& findings, const std::string& headline) {
  Reader(analysis).read_all(findings, headline);
}

void read_findings(const Analysis& analysis) { read(analysis, findings(analysis), headline(analysis)); }
}  // namespace optrush::test
