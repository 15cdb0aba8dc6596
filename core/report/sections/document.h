#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/analysis/analysis.h"
#include "report/analysis/compare.h"
#include "report/sections/bars.h"

namespace optrush {
/// Plain text by rows and columns; numbers stand to the right.
struct Table {
  struct Column {
    std::string title;
    bool number = false;
  };
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
  std::vector<Bars> bars = {};  ///< behind the text of a column each
};

/// Puts columns, by their names in results.csv, behind those that a table has, and their cells behind those
/// of a row.
void add_columns(Table&, const std::vector<std::string_view>&);
void add_cells(std::vector<std::string>&, const std::vector<std::string_view>&, const Analysis&, const Row&);

/// A part of the report, before it is markdown or HTML: plain text, escaped by the writer.
struct Section {
  std::string title;                    ///< empty: no heading
  std::string lead;                     ///< what it shows, in one sentence
  std::vector<std::string> paragraphs;  ///< above the table
  std::string chart;                    ///< name of a chart ("speed"); empty: none
  std::string caption;                  ///< of the chart; empty: it says enough
  std::optional<Table> table;
  std::vector<std::string> bullets;  ///< below the table
  struct Link {
    std::string text, file;  ///< in the report's folder
  };
  std::vector<Link> links;  ///< below them
};

/// Everything that report.md and report.html say, in their order. Empty sections are left out.
struct Document {
  std::string title, question;
  std::string headline;               ///< the answer, in one sentence
  std::string byline;                 ///< machine, model, date and commit
  std::vector<std::string> warnings;  ///< what makes the answer doubtful, right below it
  Section top;                        ///< the picture and the table of the answer
  std::vector<Section> sections;      ///< the details: folded in report.html
};
Document make_document(const Analysis&);
/// Several reports side by side: each rung with its ratio to the first report, then what differs in the
/// context.
Document comparison_document(const ComparedReports&);
/// What makes the whole report doubtful: a machine or GPU that was not quiet, a base that drifted far.
std::vector<std::string> warnings_of(const Analysis&);

/// Rows that are shown together: a ladder with the base and what stands beside it, an ablation, a grid.
struct Family {
  std::string title;   ///< of the section; empty: the first
  std::string suffix;  ///< of the names of their charts
  std::vector<const Row*> rows;
};
std::vector<Family> families_of(const Analysis&);
/// "Memory", or "Memory: combinations" of a family beside the ladder.
std::string title_for(const std::string& what, const Family&);

/// Rungs that can't be told apart in the picture of the losses: one line for all of them.
struct LossLine {
  const Row* row = nullptr;
  std::vector<const Row*> others;  ///< whose losses are its own, but for a fiftieth of what the picture shows
};
std::vector<LossLine> loss_lines(const std::vector<const Row*>&);

/// rung | tokens/s | vs previous | total | peak memory | check, of each family. Where each row is
/// compared with the base alone, one column has both.
std::vector<Section> ladder_sections(const Analysis&);
/// "✓", or what is wrong with a row; "—" of the base, which the others are held against.
std::string loss_check(const Row&);
/// The change of the loss against what the gate compares with: "+4.7e-03 to base (4.7386)".
std::string loss_cell(const Row&);
/// "2 x NVIDIA H100", or "AMD EPYC, 2 cores"; "" where it is not known.
std::string machine_text(const Json& context);
/// A text of the context; "" where it has none.
std::string context_text(const Json& context, const char* name);
/// Machine, model, date and commit on one line.
std::string byline_of(const Analysis&);
Section memory_section(const Analysis&, const Family&);
/// Those that ended well and have a time of some phase.
std::vector<const Row*> rows_with_phases(const std::vector<const Row*>&);
/// Where the time of a step goes.
Section phase_section(const Analysis&, const Family&);
/// How each row was checked, and what was found.
Section loss_section(const Family&);
Section throughput_section(const Analysis&, const Family&);
/// Rounds, intervals and definitions.
Section method_section(const Analysis&);
/// What every MFU divides by: "400 GFLOP/s per device: the measured bf16 matmul peak of EPYC"; "—": unknown.
std::string mfu_peak_text(const Json& context);
/// What others published of the rungs, beside what was measured.
Section published_section(const Analysis&);
/// Speedup and efficiency over the number of ranks.
Section scaling_section(const Analysis&);
/// A line for each rank of the rows that have several.
Section rank_section(const Analysis&);
/// What their collectives send, beside what theory says.
Section collective_section(const Analysis&);
/// What plugins count, a column each.
Section counter_section(const Analysis&);
/// Where the traces of steps are.
Section trace_section(const Analysis&);
/// Where saved states are, and what saving them took.
Section state_section(const Analysis&);
Section best_section(const Analysis&);
Section sample_section(const Analysis&);
/// Everything that a search considered, stage by stage.
Section tried_section(const Analysis&);
/// The base's spec, and what each rung changes of the one that it is compared with.
Section training_section(const Analysis&);
/// Rows that have losses over time, where the experiment asks for the time to a loss or validates; none where
/// there is one alone.
std::vector<const Row*> rows_over_time(const Analysis&, const std::vector<const Row*>&);
/// Losses after equally long training, where there are several to compare; else empty.
Section time_section(const Analysis&, const Family&);
/// How quiet the machine was.
Section noise_section(const Analysis&);
/// Where and with what the experiment ran.
Section context_section(const Analysis&);
}  // namespace optrush
