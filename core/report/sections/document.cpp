#include "report/sections/document.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>

#include "analysis/noise.h"
#include "analysis/numbers/format.h"
#include "analysis/quantities.h"
#include "base/text.h"
#include "report/claims/claims.h"
#include "report/sections/cost_section.h"
#include "report/sections/roofline.h"
#include "spec/presets.h"
#include "spec/read_fields.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
bool usable(const std::optional<Interval>& i) { return i && i->low > 0 && std::isfinite(i->high); }

/// The name of the checkpoint or of the preset; otherwise the kind of model: "llama".
std::string model_name(const RunSpec& base) {
  if (const std::string checkpoint = base.model.value("checkpoint", ""); !checkpoint.empty())
    return std::filesystem::path(checkpoint).filename().string();
  for (const Preset& preset : llama_presets())
    if (base.model_kind == "llama" && validate_model("llama", to_json(preset.spec), "") == base.model)
      return preset.name;
  return base.model_kind;
}

std::string parameters_text(double number) {
  if (number < 1e6) return grouped(number) + " parameters";
  return grouped(number / (number < 1e9 ? 1e6 : 1e9)) + (number < 1e9 ? " M" : " B") + " parameters";
}

/// For example "llama-3.2-1b, 1.24 B parameters, byte tokens", or the name of the base's program.
std::string model_of(const Analysis& a) {
  if (a.experiment.program) return program_name(*a.experiment.program);
  std::string text = model_name(a.experiment.base);
  if (!a.plans.empty() && a.plans.front() && a.plans.front()->parameters)
    text += ", " + parameters_text(static_cast<double>(a.plans.front()->parameters->count));
  return text + (a.experiment.base.data.kind == "text" ? ", byte tokens" : "");
}

/// Family, model and matrix units of a processor, because many processors have one name.
std::string processor_text(const Json& cpu) {
  std::string text = context_text(cpu, "name");
  if (const std::string model = context_text(cpu, "model"); !model.empty()) text += " (" + model + ")";
  if (const auto cores = number(cpu, "cores")) text += ", " + counted(std::llround(*cores), "core");
  std::vector<std::string> units;
  const Json sets = cpu.value("isa", Json::array());
  for (const char* unit : {"amx_bf16", "avx512_bf16", "avx_vnni", "sme", "bf16"})
    if (std::ranges::find(sets, unit) != sets.end()) units.emplace_back(unit);
  if (sets.empty()) return text;
  return text + ", " + (units.empty() ? "without bf16 instructions" : join(units, " "));
}

/// Model, machine, date and commit on one line.
std::string byline_of(const Analysis& a) {
  std::vector<std::string> parts = {model_of(a), machine_text(a.context),
                                    context_text(a.context, "date").substr(0, 10)};
  if (const std::string commit = context_text(a.context, "commit"); !commit.empty())
    parts.push_back("commit " + commit);
  std::erase(parts, "");
  return join(parts, " · ");
}

Section program_section(const Analysis& a) {
  Section section{.title = "Other programs",
                  .lead =
                      "This table compares the fastest rung with other programs that solved the same problem "
                      "in the same rounds.",
                  .table = Table({"program", ">tokens/s", ">peak memory", "fastest rung", ">vs program"})};
  for (const auto& program : a.programs) {
    const Row& row = *a.row(program.variant);
    section.table->rows.push_back({row.name, or_unknown(row.tokens_per_second, grouped),
                                   or_unknown(row.memory.allocated, bytes), a.row(program.fastest)->name,
                                   or_unknown(program.comparison.speed, ratio_text)});
  }
  return section;
}

/// "1.75x", with the published device if it differs from this one.
std::string published_cell(double value, const std::string& shown, const Row& row) {
  if (value == 0) return kUnknown;
  return row.published_here ? shown : "(" + shown + ")";
}

Section ablation_section(const Analysis& a) {
  Section section{.title = "Ablation",
                  .lead =
                      "This table compares the full stack with the stack without each rung, and each rung "
                      "alone with the base.",
                  .table = Table({"rung", ">speed in the full stack", ">speed alone",
                                  ">peak memory in the full stack", ">peak memory alone"})};
  const auto percent_more = [](double ratio) { return change(ratio); };
  std::vector<std::string> others;
  for (const auto& line : a.ablation) {
    const std::string mark = line.differs.empty() ? "" : " †";
    if (!mark.empty()) others.push_back(name_in_text(line.rung) + " (" + line.differs + ")");
    section.table->rows.push_back(
        {line.rung, or_unknown(line.in_stack, ratio_text) + mark, or_unknown(line.alone, ratio_text) + mark,
         or_unknown(line.memory_in_stack, percent_more), or_unknown(line.memory_alone, percent_more)});
  }
  if (!others.empty()) section.bullets.push_back("† Not like for like: " + join(others) + ".");
  return section;
}

/// Everything that a search considered, by stage.
Section tried_section(const Analysis& a) {
  Section section;
  if (!a.tried) return section;
  section.title = "What was tried";
  int64_t stacks = 0;
  section.table = Table({">stage", "reference", "change", "tokens/s vs reference"});
  const std::vector<TriedStage>& stages = a.tried->stages;
  for (size_t i = 0; i < stages.size(); ++i)
    for (const TriedStack& each : stages[i].stacks) {
      section.table->rows.push_back({std::to_string(i + 1), stages[i].reference, each.change, each.result});
      if (each.speed) ++stacks;
    }
  section.lead =
      ("The search ran " + counted(stacks, "stack") + " in " + counted(stages.size(), "stage") +
       "; each stage has its own report in tried/. " +
       (a.tried->finished
            ? "No further move is shown to be faster."
            : "The time ended before every move from the last stack was tried, so a faster one may remain."));
  return section;
}

Section note_section(const Analysis& a) {
  Section section{.title = "Notes", .lead = "The program and its plugins made these remarks on the rungs."};
  for (const Row& row : a.rows)
    for (const auto& note : row.notes) section.bullets.push_back(row.name + ": " + note);
  return section;
}

bool empty(const Section& s) {
  return s.table ? s.table->rows.empty() : s.paragraphs.empty() && s.bullets.empty() && s.links.empty();
}
}  // namespace

std::optional<Interval> Bars::axis() const {
  if (std::ranges::none_of(intervals, usable)) return std::nullopt;
  constexpr double kLeast = 0.01;  // around 1.00, so that equal runs also have an axis
  Interval axis{std::exp(-kLeast), std::exp(kLeast)};
  for (const auto& interval : intervals)
    if (usable(interval)) axis = {std::min(axis.low, interval->low), std::max(axis.high, interval->high)};
  return axis;
}

std::optional<Bars::Place> Bars::place(size_t row) const {
  const auto& shown = intervals.at(row);
  if (!usable(shown)) return std::nullopt;
  const double low = std::log(axis()->low), high = std::log(axis()->high);
  const auto at = [&](double x) { return (std::log(x) - low) / (high - low); };
  return Place{at(shown->low), at(shown->high), at(1), shown->low > 1 ? 1 : shown->high < 1 ? -1 : 0};
}

std::string Bars::text(size_t row) const {
  constexpr int kCells = 10;
  const auto bar = place(row);
  if (!bar) return std::string(kCells, ' ');
  // The axis has a cell on each side of 1.00. An interval without 1.00 never touches the cell of 1.00.
  const auto cell = [](double at) { return static_cast<int>(std::lround(at * (kCells - 1))); };
  const int one = std::clamp(cell(bar->one), 1, kCells - 2);
  int first = cell(bar->low), last = cell(bar->high);
  if (bar->side > 0) {
    first = std::max(first, one + 1);
    last = std::max(last, first);
  } else if (bar->side < 0) {
    last = std::min(last, one - 1);
    first = std::min(first, last);
  } else {
    first = std::min(first, one);
    last = std::max(last, one);
  }
  std::string text;
  for (int i = 0; i < kCells; ++i) {
    const bool in = first <= i && i <= last;
    text += i == one ? (in ? "┿" : "│") : in ? "━" : "·";
  }
  return text;
}

Table::Table(std::initializer_list<std::string> titles) {
  for (const std::string& title : titles) {
    const bool number = title.starts_with('>');
    columns.push_back({title.substr(number ? 1 : 0), number});
  }
}

void add_columns(Table& table, const std::vector<std::string_view>& names, const Analysis& a,
                 const Rows& rows) {
  for (const auto name : names) {
    const Quantity& q = quantity(name);
    table.add({q.title, true}, rows, [&](const Row* row) { return cell_of(q, a, *row); });
  }
}

std::string title_for(const std::string& what, const Family& family) {
  std::string of = family.title;
  if (!of.empty()) of.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(of.front())));
  return of.empty() ? what : what + ": " + of;
}

std::string context_text(const Json& context, const char* name) {
  const auto found = context.find(name);
  return found != context.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string machine_text(const Json& context) {
  if (const auto gpus = context.find("gpus"); gpus != context.end() && gpus->is_array() && !gpus->empty()) {
    const std::string name = context_text(gpus->front(), "name");
    return gpus->size() == 1 ? name : std::to_string(gpus->size()) + " x " + name;
  }
  const auto cpu = context.find("cpu");
  return cpu == context.end() || !cpu->is_object() ? "" : processor_text(*cpu);
}

Section published_section(const Analysis& a) {
  Section section{.title = "Beside published figures",
                  .lead = "This table compares speed and memory as measured here with published figures.",
                  .paragraphs = {"Speed is tokens/s relative to the rung below. Memory is the change of peak "
                                 "memory from the rung below."},
                  .table = Table({"rung", ">speed, measured", ">published", ">memory, measured", ">published",
                                  "on", "by"})};
  bool elsewhere = false;
  std::vector<std::string> others;
  for (const Row& row : a.rows) {
    if (!row.published) continue;
    const Published& published = *row.published;
    elsewhere = elsewhere || !row.published_here;
    // A comparison that includes the change of another rung is not the published one.
    const Comparison unknown;
    const Comparison& measured = row.previous.between.empty() ? row.previous : unknown;
    const bool differs = measured.speed && !measured.differs.empty();
    if (differs) others.push_back(name_in_text(row.name) + " (" + measured.differs + ")");
    section.table->rows.push_back({row.name, or_unknown(measured.speed, ratio_text) + (differs ? " †" : ""),
                                   published_cell(published.speedup, grouped(published.speedup) + "x", row),
                                   or_unknown(measured.memory, [](double m) { return change(m); }),
                                   published_cell(published.memory, change(published.memory), row),
                                   published.on, published.source});
  }
  if (elsewhere)
    section.bullets = {
        "Figures in brackets were published for another device, so this machine need not reach them."};
  if (!others.empty()) section.bullets.push_back("† Not like for like: " + join(others) + ".");
  return section;
}

std::vector<std::string> warnings_of(const Analysis& a) {
  constexpr double kFar = 0.1;
  if (std::ranges::none_of(a.rows, [](const Row& row) { return row.tokens_per_second.has_value(); }))
    return {};  // nothing was timed, so there is nothing to doubt
  std::vector<std::string> warnings;
  // The probe measures the CPU. For runs on a GPU, the steps show how steady it was.
  if (a.gpu)
    warnings = {gpu_warning(*a.gpu), short_steps_warning(*a.gpu)};
  else if (a.noise)
    warnings = {noise_warning(*a.noise)};
  warnings.push_back(disturbed_warning(disturbed_rounds(a.rows), !a.tried));
  NamesBy rungs;
  for (const Row& row : a.rows)
    for (const auto& warning : row.warnings) add_name(rungs, warning, row.name);
  for (const auto& [warning, names] : rungs) warnings.push_back(listed_names(names) + ": " + warning + ".");
  if (a.drift && std::abs(a.drift->last / a.drift->first - 1) > kFar)
    warnings.push_back("The base was " + percent(std::abs(a.drift->last / a.drift->first - 1)) +
                       (a.drift->last < a.drift->first ? " slower" : " faster") +
                       " in its last run than in its rounds, so the machine was not steady. Ratios within a "
                       "round cancel a slow change; a sudden change widens the intervals.");
  warnings.push_back(missing_warning(a));
  std::erase(warnings, "");
  return warnings;
}

Document make_document(const Analysis& a) {
  Document document{
      a.experiment.name, a.experiment.question, headline(a), byline_of(a), warnings_of(a), {}, {}};
  const auto add = [&](Section section) {
    if (!empty(section)) document.sections.push_back(std::move(section));
  };
  std::vector<Section> tables = ladder_sections(a);
  document.top = std::move(tables.front());
  add({.title = "Findings", .open = true, .bullets = findings(a)});
  add(equal_loss_section(a));
  for (size_t i = 1; i < tables.size(); ++i) add(std::move(tables[i]));
  // A grid and a search are shown even if no combination ran.
  for (auto& section : grid_sections(a)) document.sections.push_back(std::move(section));
  const auto families = families_of(a);
  for (auto* make : {scaling_section, program_section, ablation_section}) add(make(a));
  if (a.tried) document.sections.push_back(tried_section(a));
  for (auto* make : {published_section, roofline_section}) add(make(a));
  for (auto* make : {memory_section, loss_section, time_section, phase_section, throughput_section})
    for (const Family& family : families) add(make(a, family));
  for (auto* make : {rank_section, collective_section, counter_section, cost_section, trace_section,
                     state_section, best_section, sample_section, note_section, training_section,
                     method_section, noise_section, context_section})
    add(make(a));
  return document;
}
}  // namespace optrush
