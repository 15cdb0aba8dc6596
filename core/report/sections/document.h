#pragma once
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/analysis.h"
#include "analysis/compare.h"
#include "analysis/numbers/statistics.h"

namespace optrush {
/// The intervals of a column as small bars on a common logarithmic axis with a mark at 1.00.
struct Bars {
  size_t column = 0;                               ///< column of the table
  std::vector<std::optional<Interval>> intervals;  ///< by row

  /// The position of a bar, from 0 (left end of the axis) to 1 (right end).
  struct Place {
    double low = 0, high = 0, one = 0;
    int side = 0;  ///< 1: above 1.00, -1: below, 0: contains 1.00
  };
  /// None if the row has no interval.
  std::optional<Place> place(size_t row) const;
  /// The ratios at the ends of the axis, which contain 1.00; none without an interval.
  std::optional<Interval> axis() const;
  /// The bar as text, "··│····━·", always with the same number of characters; spaces if there is none.
  std::string text(size_t row) const;
};

/// A table of plain text; numbers are aligned to the right.
struct Table {
  struct Column {
    std::string title;
    bool number = false;
  };
  Table() = default;
  /// '>' in front of a title: a column of numbers.
  explicit Table(std::initializer_list<std::string> titles);
  /// Appends a column with a cell for each item. All columns must have the same items.
  template <class Items, class Cell>
  void add(Column column, const Items& items, Cell cell) {
    columns.push_back(std::move(column));
    rows.resize(items.size());
    for (size_t i = 0; i < items.size(); ++i) rows[i].push_back(std::invoke(cell, items[i]));
  }

  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
  std::vector<Bars> bars;  ///< shown behind the text of a column
};

/// Appends columns, by their names in results.csv.
void add_columns(Table&, const std::vector<std::string_view>& names, const Analysis&, const Rows&);

/// A section of the report as plain text. The writers for Markdown and HTML escape it.
struct Section {
  std::string title;                    ///< empty: no heading
  bool open = false;                    ///< part of the first page; the others are folded
  std::string lead;                     ///< one sentence about the content
  std::vector<std::string> paragraphs;  ///< text above the table
  std::string chart;                    ///< name of a chart ("speed"); empty: none
  std::string caption;                  ///< caption of the chart; may be empty
  std::optional<Table> table;
  std::vector<std::string> bullets;  ///< text below the table
  struct Link {
    std::string text, file;  ///< file: relative to the report's folder
  };
  std::vector<Link> links;  ///< links below the bullets
};

/// The content of report.md and report.html, in order. Sections without content are left out.
struct Document {
  std::string title, question;
  std::string headline;               ///< the answer in one sentence
  std::string byline;                 ///< model, machine, date and commit
  std::vector<std::string> warnings;  ///< reasons to doubt the answer, shown below it
  Section top;                        ///< chart and table of the answer
  std::vector<Section> sections;      ///< details
};
Document make_document(const Analysis&);
/// Sets the headline and the warnings of a report that is compared (for compare_reports).
void add_answer(const Analysis&, ComparedReports::Report&);
/// A comparison of reports: each rung with its ratio to the first report, then the differences of the
/// context.
Document comparison_document(const ComparedReports&);
/// Reasons to doubt the whole report: a machine or GPU that was not quiet, or a base whose speed changed.
std::vector<std::string> warnings_of(const Analysis&);

/// Rows that are shown together: a ladder with the base and external rungs, an ablation, or a grid.
struct Family {
  std::string title;   ///< title of the section; empty for the first
  std::string suffix;  ///< suffix of chart names
  Rows rows;
};
std::vector<Family> families_of(const Analysis&);
/// "Memory", or "Memory: combinations" for a family other than the ladder.
std::string title_for(const std::string& what, const Family&);

/// A line in the chart of losses, for all rungs that look equal there.
struct LossLine {
  const Row* row = nullptr;
  Rows others;  ///< rungs whose losses differ by less than a fiftieth of the chart's range
};
std::vector<LossLine> loss_lines(const Rows&);

/// The round whose steps the charts show: "first round", or "longest round" if rounds differ in length.
std::string shown_round(const Rows&);
/// The table of each family: rung | tokens/s | vs previous | total | peak memory | check. If every row is
/// compared with the base, one column shows both ratios.
std::vector<Section> ladder_sections(const Analysis&);
/// "✓", or the failure of a row; "—" for the base, which is the reference.
std::string loss_check(const Row&);
/// The change of the loss relative to the gate's reference: "+4.7e-03 to base (4.7386)".
std::string loss_cell(const Row&);
/// "12.0 s", "not reached": without the number of steps, which the findings state.
std::string time_cell(const std::optional<TimeToLoss>&);
/// "2 x NVIDIA H100", or "AMD EPYC (family 25, model 17), 2 cores, avx512_bf16"; "" if not known.
std::string machine_text(const Json& context);
/// A text field of the context; "" if it is missing.
std::string context_text(const Json& context, const char* name);
Section memory_section(const Analysis&, const Family&);
/// The rows that ended well and have phase times.
Rows rows_with_phases(const Rows&);
/// The time of a step by phase.
Section phase_section(const Analysis&, const Family&);
/// How each row was checked, with the results.
Section loss_section(const Analysis&, const Family&);
Section throughput_section(const Analysis&, const Family&);
/// Rounds, intervals and definitions.
Section method_section(const Analysis&);
/// The denominator of every MFU: "400 GFLOP/s per device: the measured bf16 matmul peak of EPYC"; "—": not
/// known.
std::string mfu_peak_text(const Json& context);
/// One table per grid with a view.
std::vector<Section> grid_sections(const Analysis&);
/// Published figures of the rungs beside the measured ones.
Section published_section(const Analysis&);
/// Speedup and efficiency by number of ranks.
Section scaling_section(const Analysis&);
/// One line per rank, for rows with several ranks.
Section rank_section(const Analysis&);
/// Bytes of collectives, with the theoretical bytes.
Section collective_section(const Analysis&);
/// Counters of plugins, one column each.
Section counter_section(const Analysis&);
/// Links to the traces of steps.
Section trace_section(const Analysis&);
/// Paths of saved states, and the time to save them.
Section state_section(const Analysis&);
Section best_section(const Analysis&);
Section sample_section(const Analysis&);
// The text of a spec.
/// A string unchanged; other values as JSON on one line.
std::string plain_text(const Json& value);
/// "train.steps = 10" for each leaf, in order. `prefix`: "train" for the fields of a part.
std::vector<std::string> leaves_text(const Json& json, const std::string& prefix = "");
/// A plugin with options: "NAME { rank = 4, alpha = 8 }".
std::string use_text(const Json& use);
/// What a variant (as JSON) adds, removes and sets relative to its reference, one line each.
std::vector<std::string> changes_text(const Json& variant);
/// The base's spec, and each rung's changes relative to its reference.
Section training_section(const Analysis&);
/// Rows with losses over time, if the experiment validates or has a target loss; empty if there is only one.
Rows rows_over_time(const Analysis&, const Rows&);
/// Losses after equal training times; empty unless several rows can be compared.
Section time_section(const Analysis&, const Family&);
/// Times to the target loss, and losses over seeds, relative to the base.
Section equal_loss_section(const Analysis&);
/// The noise of the machine.
Section noise_section(const Analysis&);
/// The machine and software of the experiment.
Section context_section(const Analysis&);
}  // namespace optrush
