#include "analysis/numbers/format.h"

#include <gtest/gtest.h>

#include <random>

#include "report/writers/writers.h"

namespace optrush {
namespace {
TEST(Format, FormatsNumbers) {
  EXPECT_EQ(fixed(1234.5678, 2), "1234.57");
  EXPECT_EQ(fixed(-0.001, 2), "0.00");
  EXPECT_EQ(grouped(0.5), "0.50");
  EXPECT_EQ(grouped(99.95), "100");
  EXPECT_EQ(grouped(999.4), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-1234567.8), "-1,234,568");
  EXPECT_EQ(scientific(0.00512), "5.1e-03");
  EXPECT_EQ(exact_number(0.1), "0.1");
  EXPECT_EQ(bytes(512), "512 B");
  EXPECT_EQ(bytes(1664299827), "1.55 GiB");
  EXPECT_EQ(bytes(1023.9 * 1024), "1.00 MiB");
  EXPECT_EQ(duration(0.0123), "12.3 ms");
  EXPECT_EQ(duration(0), "0 s");
  EXPECT_EQ(duration(83), "83.0 s");
  EXPECT_EQ(flops_rate(4.2e11), "420 GFLOP/s");
  EXPECT_EQ(percent(0.123), "12.3 %");
  EXPECT_EQ(change(0.8), "-20.0 %");
  EXPECT_EQ(change(1.25, 0), "+25 %");
  EXPECT_EQ(change(1), "0.0 %");
}

TEST(Format, FormatsRatios) {
  EXPECT_EQ(ratio_text({2.069, Interval{1.98, 2.161}, 5}), "2.07x [1.98, 2.16]");
  EXPECT_EQ(ratio_text({1.01, Interval{0.98, 1.04}, 5}), "1.010x [0.980, 1.040] no difference");
  EXPECT_EQ(ratio_text({1.01, Interval{0.88, 1.14}, 5}), "1.010x [0.880, 1.140] undecided");
  EXPECT_EQ(ratio_text({2.07, std::nullopt, 2}), "2.07x (2 rounds, no claim)");
}

/// Text with every character that needs escaping in some format.
std::string nasty_text(std::mt19937& random) {
  static const std::vector<std::string> kPieces = {
      "|",  "\\", "\n", "\r\n",   "\t",  "<",  ">",         "&",     "\"",   "'",        ",",
      "`",  "*",  "_",  "[x](y)", "![",  "#",  "~~",        "</td",  "--",   "<script>", "é",
      "漢", "a",  " ",  "$",      "\\|", "||", "</script>", "&amp;", "<br>", "1"};
  std::string text;
  for (int i = std::uniform_int_distribution(0, 12)(random); i > 0; --i)
    text += kPieces[std::uniform_int_distribution<size_t>(0, kPieces.size() - 1)(random)];
  return text;
}

/// The cells of a row as GitHub splits them, at every unescaped bar.
std::vector<std::string> markdown_cells(const std::string& row) {
  std::vector<std::string> cells(1);
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] == '\\' && i + 1 < row.size())
      cells.back() += row.substr(i++, 2);
    else if (row[i] == '|')
      cells.emplace_back();
    else
      cells.back() += row[i];
  }
  return cells;
}

/// The text of the rendered markdown.
std::string rendered(const std::string& cell) {
  std::string text;
  for (size_t i = 0; i < cell.size(); ++i) {
    const std::string_view rest = std::string_view(cell).substr(i);
    if (rest.starts_with("&amp;"))
      text += '&', i += 4;
    else if (rest.starts_with("&lt;"))
      text += '<', i += 3;
    else if (rest.starts_with("&gt;"))
      text += '>', i += 3;
    else if (rest.starts_with("<br>"))
      text += '\n', i += 3;
    else if (rest.starts_with("\\"))
      text += cell[++i];
    else
      text += cell[i];
  }
  return text;
}

TEST(Escaping, MarkdownCellsHoldAnyText) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = nasty_text(random), cell = markdown_cell(text);
    EXPECT_EQ(cell.find('\n'), std::string::npos);
    for (const char* link : {"](", "]:", "]["})
      for (size_t at = cell.find(link); at != std::string::npos; at = cell.find(link, at + 1))
        EXPECT_TRUE(at > 0 && cell[at - 1] == '\\') << "'" << text << "' would make a link";
    EXPECT_EQ(markdown_cells("| " + cell + " | next |").size(), 4U) << cell;
    std::string expected = text;
    for (size_t at; (at = expected.find_first_of("\r\t")) != std::string::npos;) expected[at] = ' ';
    EXPECT_EQ(rendered(cell), expected);
  }
}

TEST(Escaping, HtmlHoldsAnyText) {
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = html_text(nasty_text(random));
    EXPECT_EQ(text.find_first_of("<>\"'"), std::string::npos) << text;
  }
}

TEST(Escaping, CsvFieldsHoldAnyText) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = nasty_text(random), field = csv_field(text);
    std::string read;  // as RFC 4180 reads it
    if (!field.starts_with('"')) {
      EXPECT_EQ(field.find_first_of(",\"\r\n"), std::string::npos);
      read = field;
    } else {
      for (size_t i = 1; i + 1 < field.size(); ++i) {
        if (field[i] == '"') ++i;
        read += field[i];
      }
    }
    EXPECT_EQ(read, text);
  }
}

TEST(Escaping, NoNameEndsAScriptOrATable) {
  std::mt19937 random(4);
  Document document{.title = "</script><script>alert(1)</script>",
                    .headline = nasty_text(random),
                    .byline = nasty_text(random),
                    .warnings = {nasty_text(random)}};
  for (int i = 0; i < 50; ++i) {
    Section section{.title = nasty_text(random)};
    Table& table = section.table.emplace();
    table.columns.push_back({nasty_text(random)});
    table.rows.push_back({nasty_text(random)});
    document.sections.push_back(section);
  }
  const std::string page = html(document, {"speed"});
  const auto count = [&](std::string_view wanted) {
    size_t found = 0;
    for (size_t at = 0; (at = page.find(wanted, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("<script>"), 1U) << "the script that sorts tables; charts_test checks scripts of charts";
  EXPECT_EQ(count("</script>"), 1U);
  EXPECT_EQ(count("</td>"), 50U);
  EXPECT_EQ(count("<b>"), 0U);
}
}  // namespace
}  // namespace optrush
