#include "analysis/analysis.h"

#include <algorithm>
#include <limits>

#include "analysis/checked_rows.h"
#include "analysis/variant_runs.h"
#include "machine/stand_in.h"
#include "measure/cpu_info.h"
#include "optrush/error.h"
#include "spec/read_fields.h"

namespace optrush {
namespace {
Ratio inverse(const Ratio& ratio) {
  Ratio inverse = ratio;
  inverse.value = 1 / ratio.value;
  if (ratio.interval) inverse.interval = Interval{1 / ratio.interval->high, 1 / ratio.interval->low};
  return inverse;
}

/// expand() calls the variants of a rung "without <rung>" and "<rung> alone".
AblationLine ablation_line(const std::string& rung, const std::vector<Row>& rows) {
  AblationLine line{.rung = rung};
  const Row* without = row_named(rows, "without " + rung);
  const Row* alone = row_named(rows, rung + " alone");
  const auto against_full = [&](const Row& row) {
    return row.previous.variant >= 0 && rows[static_cast<size_t>(row.previous.variant)].group == "full";
  };
  if (without && against_full(*without)) {
    if (without->previous.speed) line.in_stack = inverse(*without->previous.speed);
    if (without->previous.memory) line.memory_in_stack = 1 / *without->previous.memory;
    line.differs = without->previous.differs;
  }
  if (alone) {
    line.alone = alone->base.speed;
    line.memory_alone = alone->base.memory;
    if (line.differs.empty()) line.differs = alone->base.differs;
  }
  return line;
}

/// The effect of each rung of the ablations, largest first.
std::vector<AblationLine> rank_ablation(const Experiment& experiment, const std::vector<Row>& rows) {
  std::vector<AblationLine> lines;
  for (const Part& part : experiment.parts)
    if (part.arrangement == Arrangement::ablation)
      for (const Rung& rung : part.rungs)
        if (!rung.external) lines.push_back(ablation_line(rung.name, rows));
  std::ranges::stable_sort(lines, std::greater{},
                           [](const AblationLine& line) { return line.in_stack ? line.in_stack->value : 0; });
  return lines;
}

/// Compares the rows of a report.
class Analyzer {
 public:
  explicit Analyzer(Stored stored) : out_(std::move(stored)), runs_(out_.variants, out_.runs) {
    out_.standard = standard_of(out_.experiment);
  }

  Analysis analyze() {
    out_.rows = checked_rows(out_, runs_);
    for (Row& row : out_.rows) {
      out_.missing_runs += row.missing_rounds;
      if (row.ok()) compare(row);
    }
    find_drift();
    out_.noise = noise_of(out_.probes);
    out_.gpu = gpu_steps_of(out_.runs);
    compare_programs();
    out_.scaling = find_scaling(out_);
    judge_together();
    out_.ablation = rank_ablation(out_.experiment, out_.rows);
    return std::move(out_);
  }

 private:
  std::string difference(const Row& row, int64_t other) const {
    return difference_of_problems(out_, row.variant, out_, other);
  }

  Comparison against(const Row& row, int64_t other) const {
    Comparison c;
    const Row* reference = out_.row(other);
    if (!reference) return c;
    c.variant = other;
    c.name = reference->name;
    c.differs = difference(row, other);
    if (row.runs_of() == reference->runs_of())
      c.speed = Ratio{.rounds = row.samples.size(), .same_run = true};
    else
      c.speed = paired_speed(row, *reference, out_.standard);
    const auto &plan = out_.plan(row.variant), &its_plan = out_.plan(other);
    const bool frozen_in_one = plan && its_plan && other_parameters(*plan, *its_plan);
    if (same_task(out_.spec(row), out_.spec(*reference)) && row.runs_of() != reference->runs_of()) {
      c.time_to_loss = paired_time_to_loss(row, *reference, out_.standard);
      c.perplexity = paired_perplexity(row, *reference, out_.standard);
      if (!frozen_in_one)
        c.worse = trains_worse({row.steps, row.validation}, {reference->steps, reference->validation});
    }
    if (row.memory.allocated && reference->memory.allocated.value_or(0) > 0)
      c.memory = *row.memory.allocated / *reference->memory.allocated;
    return c;
  }

  /// The rungs of a row's stack above another row, in order.
  std::vector<std::string> between(const Row& row, int64_t other) const {
    std::vector<std::string> names;
    for (const Row* below = out_.row(out_.variant(row.variant).previous); below && below->variant != other;
         below = out_.row(out_.variant(below->variant).previous))
      names.insert(names.begin(), below->name);
    return names;
  }

  /// Previous is the nearest row below that is ok, preferably of the same problem. Base is variant 0,
  /// otherwise the first row of the stack that is ok.
  void compare(Row& row) {
    std::vector<int64_t> below;  // variants below, nearest first
    for (int64_t i = out_.variant(row.variant).previous; i >= 0; i = out_.variant(i).previous)
      if (out_.row(i)->ok()) below.push_back(i);
    if (below.empty()) return;
    const auto same = std::ranges::find_if(below, [&](int64_t i) { return difference(row, i).empty(); });
    row.previous = against(row, same == below.end() ? below.front() : *same);
    row.previous.between = between(row, row.previous.variant);
    row.base = against(row, below.back());
    if (below.back() != 0) row.notes.push_back("the base failed, so '" + row.base.name + "' replaces it");
  }

  void compare_programs() {
    Rows own, others;
    const bool ours = out_.variants.empty() || !out_.variants.front().external;
    for (const Row& row : out_.rows) {
      const bool other = row.group == "external" || (row.external && ours);
      // A rung that trains worse than the base does not count as fastest.
      if (row.ok() && row.tokens_per_second && (other || !row.base.worse))
        (other ? others : own).push_back(&row);
    }
    for (const Row* other : others) {
      Rows same = own;
      std::erase_if(same, [&](const Row* row) { return !difference(*row, other->variant).empty(); });
      if (same.empty()) continue;
      const auto alike = [&](const Row* row) { return row->devices == other->devices; };
      if (std::ranges::any_of(same, alike)) std::erase_if(same, [&](const Row* row) { return !alike(row); });
      // By ratios of the same rounds: medians may be of rounds in which the machine had other speeds.
      const auto speed = [&](const Row* row) {
        const auto paired = paired_speed(*row, *other, out_.standard);
        return std::pair(paired ? paired->value : 0, *row->tokens_per_second);
      };
      const Row& fastest = **std::ranges::max_element(same, {}, speed);
      out_.programs.push_back(
          {other->variant, fastest.variant, same.size(), against(fastest, other->variant)});
    }
    std::ranges::stable_sort(out_.programs, {}, [](const OtherProgram& program) {
      const auto& speed = program.comparison.speed;
      return speed ? speed->value : std::numeric_limits<double>::infinity();
    });
  }

  /// Sets all intervals again, by the standard of all together.
  void judge_together() {
    const Standard of_times = standard_together(out_, &Comparison::time_to_loss),
                   of_losses = standard_together(out_, &Comparison::perplexity);
    out_.standard = standard_together(out_, &Comparison::speed);
    const auto judge = [&](const Row& row, Comparison& c) {
      if (c.speed && !c.speed->same_run) c.speed = paired_speed(row, *out_.row(c.variant), out_.standard);
      if (c.time_to_loss) c.time_to_loss = paired_time_to_loss(row, *out_.row(c.variant), of_times);
      if (!c.perplexity) return;
      c.perplexity = paired_perplexity(row, *out_.row(c.variant), of_losses);
      // One seed does not show which rung trains worse if there are more.
      if (c.perplexity->interval && !(c.perplexity->claim() && c.perplexity->value > 1)) c.worse.reset();
    };
    for (Row& row : out_.rows)
      for (Comparison* c : {&row.previous, &row.base}) judge(row, *c);
    for (OtherProgram& program : out_.programs) judge(*out_.row(program.fastest), program.comparison);
    out_.scaling = find_scaling(out_);
  }

  void find_drift() {
    const auto runs = runs_.of(0, Purpose::drift);
    if (runs.empty() || !runs_.sound(*runs.back()) || !out_.rows.front().ok()) return;
    const auto last = runs.back()->result.tokens_per_second;
    if (last && out_.rows.front().tokens_per_second)
      out_.drift = Drift{*out_.rows.front().tokens_per_second, *last};
  }

  Analysis out_;
  const VariantRuns runs_;
};
}  // namespace

const Row* row_named(const std::vector<Row>& rows, const std::string& name) {
  const auto it = std::ranges::find(rows, name, &Row::name);
  return it == rows.end() ? nullptr : &*it;
}

std::optional<double> mfu_denominator(const Json& context) {
  const auto flops = number_at(context, "/peak/mfu_denominator");
  return flops && *flops > 0 ? flops : std::nullopt;
}

std::optional<double> sustained_rate(const Json& context) {
  std::optional<double> best;
  const auto peak = context.find("peak");
  if (peak == context.end() || !peak->is_object() || !peak->contains("sustained")) return best;
  for (const Json& product : peak->at("sustained")) {
    if (!product.value("gpu", false) || product.value("dtype", "") != peak->value("mfu_dtype", "")) continue;
    if (const auto rate = number(product, "flops_per_second")) best = std::max(best.value_or(0), *rate);
  }
  return best;
}

std::string doubt_of_peak(const Json& context) {
  constexpr double kLeast = 1;  // seconds
  const Json::json_pointer source("/peak/source");
  if (!context.contains(source) || context.at(source) != "measured") return "";
  if (is_busy(number_at(context, "/cpu/busy").value_or(0), number_at(context, "/cpu/threads").value_or(1)))
    return "other programs used the machine while the peak was measured";
  const auto measured = number_at(context, "/probe_s");
  return measured && *measured < kLeast ? "the peak was measured for less than a second" : "";
}

bool ran_on_stand_in(const Json& context) {
  const auto gpus = context.find("gpus");
  return gpus != context.end() && gpus->is_array() &&
         std::ranges::any_of(*gpus, [](const Json& gpu) { return is_stand_in(gpu.value("name", "")); });
}

void refuse_stand_in(const Json& context, const std::string& folder) {
  if (ran_on_stand_in(context))
    throw Error(ErrorCode::unsupported, kNothingComputed, "run the experiment on a GPU", folder);
}

std::optional<double> peak_of_dtype(const Json& context, const std::string& dtype) {
  return number_at(context, "/peak/dtype_flops/" + dtype);
}

std::optional<double> bandwidth_of(const Json& context) {
  return number_at(context, "/bandwidth_bytes_per_second");
}

std::optional<double> number_at(const Json& json, const std::string& place) {
  const Json::json_pointer pointer(place);
  if (!json.contains(pointer) || !json.at(pointer).is_number()) return std::nullopt;
  return json.at(pointer).get<double>();
}

bool Row::trains_on_fewer() const {
  return std::ranges::any_of(steps, [](const StepResult& step) { return step.trained < step.tokens; });
}

bool Row::pads() const {
  return std::ranges::any_of(steps, [](const StepResult& step) { return step.tokens < step.positions; });
}

bool Row::was_interleaved() const {
  return std::ranges::any_of(turns, [](const InterleavedSamples& round) { return !round.group.empty(); });
}

void Row::end_badly(Status how, std::string why, std::optional<ErrorCode> kind) {
  if (!ok()) return;
  status = how;
  code = kind;
  reason = std::move(why);
}

bool Analysis::any_failed() const {
  return std::ranges::any_of(rows, [](const Row& row) { return !row.ok() && row.status != Status::skipped; });
}

Analysis analyze(Stored stored) { return Analyzer(std::move(stored)).analyze(); }
}  // namespace optrush
