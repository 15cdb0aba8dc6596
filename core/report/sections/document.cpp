#include "report/sections/document.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/counted.h"
#include "base/suggest.h"
#include "report/analysis/disturbed_round.h"
#include "report/analysis/noise.h"
#include "report/analysis/quantities.h"
#include "report/numbers/format.h"
#include "report/sections/cost_section.h"
#include "report/sections/grid.h"
#include "report/sections/roofline.h"

namespace optrush {
void add_columns(Table& table, const std::vector<std::string_view>& names) {
  for (const auto name : names) table.columns.push_back({quantity(name).title, true});
}

void add_cells(std::vector<std::string>& cells, const std::vector<std::string_view>& names, const Analysis& a,
               const Row& row) {
  for (const auto name : names) cells.push_back(cell_of(quantity(name), a, row));
}

std::string title_for(const std::string& what, const Family& family) {
  std::string of = family.title;
  if (!of.empty()) of.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(of.front())));
  return of.empty() ? what : what + ": " + of;
}

namespace {
Section memory_section(const Analysis& a, const Family& family) {
  Section section{
      .title = title_for("Memory", family),
      .chart = "memory" + family.suffix,
      .caption =
          "Peak active memory over the timed steps: the bytes that tensors hold. The line across it is the "
          "forecast. Below it are the tensors of a step by what they are for: not all of them are there at "
          "once, and temporary ones are not among them. The allocator reserves more, and the process holds "
          "more than that. Of several ranks each peak is the largest, and the tensors are those of rank 0."};
  static const std::vector<std::string_view> kMeasured = {"peak_allocated_bytes"},
                                             kParts = {"prediction_error",  "parameters_bytes",
                                                       "gradients_bytes",   "optimizer_state_bytes",
                                                       "activations_bytes", "peak_reserved_bytes",
                                                       "process_bytes"};
  Table table{{{"rung"}}, {}};
  add_columns(table, kMeasured);
  table.columns.push_back({"predicted", true});
  add_columns(table, kParts);
  for (const Row* each : family.rows) {
    const Row& row = *each;
    if (!row.memory.allocated && row.memory.parts.empty() && !row.memory.process) continue;
    std::vector<std::string> cells = {row.name};
    add_cells(cells, kMeasured, a, row);
    cells.push_back(row.planned_memory ? planned_peak_text(*row.planned_memory) : std::string(kUnknown));
    add_cells(cells, kParts, a, row);
    table.rows.push_back(std::move(cells));
  }
  if (!table.rows.empty()) section.table = std::move(table);
  return section;
}

Section loss_section(const Family& family) {
  Section section{.title = title_for("Loss and correctness", family),
                  .chart = "loss" + family.suffix,
                  .caption =
                      "Loss of every step, warm-up included, of each rung's first round. Below: how far "
                      "it is from what the gate compares it with, and how far it may be."};
  Table table{
      {{"rung"}, {"final loss", true}, {"compared how"}, {"found"}, {"allowed", true}, {"of norms", true}},
      {}};
  const auto allowed = [](double tolerance) {
    return tolerance == 0 ? std::string("equal bits") : exact_number(tolerance);
  };
  for (const Row* each : family.rows) {
    const Row& row = *each;
    if (!row.final_loss) continue;
    table.rows.push_back(
        {row.name, fixed(*row.final_loss, 4), row.gate.empty() ? std::string(kUnknown) : row.gate,
         row.verdict.message.empty() ? std::string(kUnknown) : row.verdict.message,
         row.verdict.compared ? allowed(row.verdict.loss.tolerance) : std::string(kUnknown),
         or_unknown(row.verdict.norm, [&](const Deviation& d) { return allowed(d.tolerance); })});
  }
  if (table.rows.empty()) return section;
  section.table = std::move(table);
  section.bullets = {
      "Compared are losses and gradient norms of the first steps, by relative difference, and means of later "
      "losses: at single steps equally good runs drift apart. Exact plugins must match in every "
      "step."};
  for (const LossLine& line : loss_lines(family.rows)) {
    std::vector<std::string> names;
    for (const Row* other : line.others) names.push_back(other->name);
    if (!names.empty())
      section.bullets.push_back("In the picture the curve of " + line.row->name + " covers that of " +
                                join(names) + ".");
  }
  std::vector<std::string> equal;
  for (const Row* row : family.rows)
    if (!row->losses_apart.empty() && std::ranges::all_of(row->losses_apart, [](double d) { return d == 0; }))
      equal.push_back(row->name);
  if (!equal.empty())
    section.bullets.push_back(
        "Losses bit-equal to what they are compared with, in the steps that both have: " + join(equal) + ".");
  return section;
}

std::string samples_text(const Row& row) {
  std::vector<std::string> samples;
  for (const double sample : row.samples) samples.push_back(grouped(sample));
  return samples.empty() ? std::string(kUnknown) : join(samples, " · ");
}

Section throughput_section(const Analysis& a, const Family& family) {
  Section section{.title = title_for("Throughput", family),
                  .chart = "throughput" + family.suffix,
                  .caption = "Tokens processed a second, in every timed step of each rung's first round."};
  const bool energy =
      std::ranges::any_of(a.rows, [](const Row& row) { return row.joules_per_token.has_value(); });
  const bool cost = a.experiment.price_per_hour > 0;
  const bool fewer = std::ranges::any_of(family.rows, [](const Row* row) { return row->trains_on_fewer(); });
  std::vector<std::string_view> shown = {"tokens_per_second_per_device",
                                         "devices",
                                         "step_seconds",
                                         "mfu",
                                         "mfu_causal",
                                         "hfu",
                                         "compile_seconds",
                                         "setup_seconds"};
  if (fewer) shown.insert(shown.end(), {"trained_tokens_per_second", "padding"});
  if (energy) shown.emplace_back("joules_per_token");
  if (cost) shown.emplace_back("cost_per_million_tokens");
  Table table{{{"rung"}, {"tokens/s of each round"}}, {}};
  add_columns(table, shown);
  if (cost) table.columns.back().title = a.experiment.currency + " a million tokens";
  for (const Row* row : family.rows) {
    if (row->samples.empty()) continue;
    table.rows.push_back({row->name, samples_text(*row)});
    add_cells(table.rows.back(), shown, a, *row);
  }
  if (!table.rows.empty()) section.table = std::move(table);
  const bool first = family.suffix.empty();  // what is of the whole report stands there
  if (a.drift && first)
    section.bullets.push_back("Drift: the base ran again after everything else at " + grouped(a.drift->last) +
                              " tokens/s, " + change(a.drift->last / a.drift->first) + " of its median of " +
                              grouped(a.drift->first) + ".");
  if (cost && first)
    section.bullets.push_back("Price: " + grouped(a.experiment.price_per_hour) + " " + a.experiment.currency +
                              " an hour for all devices.");
  return section;
}

Section program_section(const Analysis& a) {
  Section section{.title = "Other programs"};
  if (a.programs.empty()) return section;
  section.paragraphs = {
      "What other programs make of the same problem in the same rounds, and the fastest rung over each."};
  section.table = Table{{{"program"},
                         {"tokens/s", true},
                         {"peak active memory", true},
                         {"fastest rung"},
                         {"over the program", true}},
                        {}};
  for (const auto& program : a.programs) {
    const Row& row = *a.row(program.variant);
    section.table->rows.push_back({row.name, or_unknown(row.tokens_per_second, grouped),
                                   or_unknown(row.memory.allocated, bytes), a.row(program.fastest)->name,
                                   or_unknown(program.comparison.speed, ratio_text)});
  }
  return section;
}

Section ablation_section(const Analysis& a) {
  Section section{.title = "Ablation"};
  if (a.ablation.empty()) return section;
  section.paragraphs = {
      "What each rung is worth: the full stack over the stack without it, and the rung alone over the base."};
  section.table = Table{{{"rung"},
                         {"speed in the full stack", true},
                         {"speed alone", true},
                         {"peak active memory in the full stack", true},
                         {"peak active memory alone", true}},
                        {}};
  const auto percent_more = [](double ratio) { return change(ratio); };
  std::vector<std::string> others;
  for (const auto& line : a.ablation) {
    const std::string mark = line.differs.empty() ? "" : " †";
    if (!mark.empty()) others.push_back(line.rung + " (" + line.differs + ")");
    section.table->rows.push_back(
        {line.rung, or_unknown(line.in_stack, ratio_text) + mark, or_unknown(line.alone, ratio_text) + mark,
         or_unknown(line.memory_in_stack, percent_more), or_unknown(line.memory_alone, percent_more)});
  }
  if (!others.empty()) section.bullets.push_back("† Not like for like: " + join(others));
  return section;
}

Section failure_section(const Analysis& a) {
  Section section{.title = "Failures"};
  for (const Row& row : a.rows)
    if (!row.ok())
      section.bullets.push_back(row.name + ": " + std::string(to_string(row.status)) + ". " + row.reason);
  return section;
}

Section note_section(const Analysis& a) {
  Section section{.title = "Notes"};
  for (const Row& row : a.rows)
    for (const auto& note : row.notes) section.bullets.push_back(row.name + ": " + note);
  return section;
}

/// How many rounds there were, and why.
std::string rounds_text(const Analysis& a) {
  const auto& until = a.experiment.until;
  if (!until)
    return a.experiment.rounds == 1 ? "Each rung ran once"
                                    : "Each rung ran " + std::to_string(a.experiment.rounds) + " times";
  size_t least = std::numeric_limits<size_t>::max(), most = 0;
  for (const Row& row : a.rows)
    if (row.ok()) {
      least = std::min(least, row.rounds.size());
      most = std::max(most, row.rounds.size());
    }
  std::string text = "Rungs ran until the intervals of their speedups were ±" + percent(until->within) +
                     " or " + duration(until->at_most_s) + " were over";
  if (most > 0)
    text += ": " + (least == most ? "" : std::to_string(least) + " to ") +
            counted(static_cast<int64_t>(most), "round");
  return text;
}

/// "1, 2 and 4"
std::string listed(const std::set<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers)
    text += (text.empty() ? "" : number == *numbers.rbegin() ? " and " : ", ") + std::to_string(number);
  return text;
}

/// Which rounds ended before their last step, and with how many steps; empty: none.
std::vector<std::string> cuts_text(const Analysis& a) {
  std::map<std::pair<std::string, int64_t>, std::set<int64_t>> rounds;  // by cause and steps
  for (const StoredRun& run : a.runs)
    if (!run.result.cut.empty() && run.spec.purpose == Purpose::measure)
      rounds[{run.result.cut, std::ssize(run.result.steps) - run.spec.train.warmup}].insert(run.spec.round +
                                                                                            1);
  std::vector<std::string> lines;
  for (const auto& [key, numbers] : rounds) {
    const auto& [cause, steps] = key;
    const bool limit = cause == "time limit";
    lines.push_back((limit ? "The time limit did not hold " + std::to_string(kMinRounds) + " rounds of " +
                                 counted(a.experiment.base.train.steps, "step") + ". "
                           : std::string("An interrupt ended a round early. ")) +
                    (numbers.size() == 1 ? "Round " : "Rounds ") + listed(numbers) + " made " +
                    counted(steps, "step") + " a run" +
                    (limit ? ", and the base did not run once more at the end" : "") + ".");
  }
  std::vector<std::string> left_out;
  bool claims = false;
  for (const Row& row : a.rows) {
    if (!row.ok() || row.variant == 0 || row.same_as >= 0) continue;
    (row.rounds.size() < kMinRounds ? left_out.push_back(row.name) : void(claims = true));
  }
  if (a.experiment.until && claims && !left_out.empty())
    lines.push_back("The time limit did not hold " + std::to_string(kMinRounds) +
                    " rounds of all rungs. Left out were those that were worth least by the rounds before: " +
                    join(left_out) + ".");
  return lines;
}

/// Where a run may end before its steps are made, it says so.
std::string timed_steps_text(const Analysis& a) {
  const RunSpec& base = a.experiment.base;
  const bool may_end_early = base.train.epochs > 0 || base.validate.patience > 0;
  return std::string(may_end_early ? "up to " : "") + counted(base.train.steps, "timed step");
}

Section method_section(const Analysis& a) {
  Section section{.title = "How it was measured"};
  const TrainSpec& train = a.experiment.base.train;
  const Standard standard = standard_of(a.experiment);
  section.bullets = {
      rounds_text(a) +
          ", one fresh process a run, rounds interleaved; the run is the sample: the median of " +
          timed_steps_text(a) + " after " + std::to_string(train.warmup) + " of warm-up." +
          (std::ranges::any_of(a.rows, &Row::was_interleaved)
               ? " Of interleaved rows, the first step of a turn of several is not timed."
               : ""),
      "A speedup is the geometric mean over rounds of the tokens/s of both in the same round; in brackets "
      "the paired " +
          percent(1 - standard.error, 0) + " t interval on the log ratios. Fewer than " +
          std::to_string(kMinRounds) + " rounds make no claim.",
      "An interval without 1.00 is a difference. Else \"no difference\" means that two one-sided tests at " +
          percent(standard.error, 0) +
          " rule out any larger than the bound that the finding states, at most " +
          percent(standard.alike, 0) +
          "; \"undecided\" means that there may be a difference and there may be none.",
      "Tokens/s are tokens processed. Padding never counts, and prompts do, though no loss is taken on them.",
      "MFU: FLOPs are 6P for each token and 12·L·heads·head_dim for each pair of positions of one document, "
      "so "
      "6P + 12·L·S·heads·head_dim for a token of a full sequence. P are the parameters in matrix products, "
      "without the input embedding unless it is tied; frozen ones count 4P. The causal MFU counts half of "
      "the "
      "pairs. HFU: FLOPs are those that were executed, of padding and recomputation, too. Both are sums of "
      "the "
      "timed steps over the time that these take.",
      "Memory is active (what tensors hold), reserved (what the allocator holds) or of the process, by "
      "name."};
  const auto cuts = cuts_text(a);
  section.bullets.insert(section.bullets.begin() + 1, cuts.begin(), cuts.end());
  return section;
}

bool empty(const Section& s) {
  return s.paragraphs.empty() && s.bullets.empty() && s.links.empty() && !s.table;
}
}  // namespace

std::vector<std::string> warnings_of(const Analysis& a) {
  constexpr double kFar = 0.1;
  std::vector<std::string> warnings;
  if (std::ranges::none_of(a.rows, [](const Row& row) { return row.tokens_per_second.has_value(); }))
    return warnings;  // nothing was timed that they could make doubtful
  if (const std::string noise = a.noise ? noise_warning(*a.noise) : ""; !noise.empty())
    warnings.push_back(noise);
  if (const std::string text = disturbed_warning(disturbed_rounds(a.rows)); !text.empty())
    warnings.push_back(text);
  for (const Row& row : a.rows)
    for (const auto& warning : row.warnings) warnings.push_back(row.name + ": " + warning + ".");
  if (!a.drift || std::abs(a.drift->last / a.drift->first - 1) <= kFar) return warnings;
  warnings.push_back(
      "The base ran again after everything else, " + change(a.drift->last / a.drift->first) +
      " against its speed before: the machine was not steady. Pairs of the same round cancel a slow "
      "drift, and "
      "sudden ones widen the intervals.");
  return warnings;
}

Document make_document(const Analysis& a) {
  Document document{a.experiment.name, a.experiment.question, a.findings, warnings_of(a), {}};
  const auto add = [&](Section section) {
    if (!empty(section)) document.sections.push_back(std::move(section));
  };
  for (auto& section : ladder_sections(a)) add(std::move(section));
  for (auto& section : grid_sections(a)) add(std::move(section));
  const auto families = families_of(a);
  for (auto* make : {scaling_section, published_section, roofline_section, program_section}) add(make(a));
  for (const Family& family : families) add(memory_section(a, family));
  for (auto* make : {rank_section, collective_section, counter_section, cost_section}) add(make(a));
  for (const Family& family : families) add(loss_section(family));
  for (const Family& family : families) add(time_section(a, family));
  for (const Family& family : families) add(throughput_section(a, family));
  for (auto* make :
       {ablation_section, failure_section, tried_section, trace_section, state_section, best_section,
        sample_section, note_section, training_section, method_section, noise_section, context_section})
    add(make(a));
  return document;
}
}  // namespace optrush
