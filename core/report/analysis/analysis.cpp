#include "report/analysis/analysis.h"

#include <algorithm>
#include <utility>

#include "measure/cpu_info.h"
#include "report/analysis/checked_rows.h"
#include "report/analysis/problem.h"
#include "report/analysis/variant_runs.h"
#include "spec/read_fields.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
/// Compares the rows of a report and collects its findings.
class Analyzer {
 public:
  /// `runs` is a separate argument, so that a caller that needs nothing else of `stored` can move it.
  Analyzer(const Stored& stored, std::vector<StoredRun> runs)
      : stored_(stored), out_{.runs = std::move(runs)}, runs_(stored.variants, out_.runs) {
    out_.experiment = stored.experiment;
    out_.context = stored.context;
    out_.variants = stored.variants;
    out_.plans = stored.plans;
    out_.tried = stored.tried;
    out_.probes = stored.noise;
  }

  Analysis analyze() {
    out_.rows = checked_rows(stored_, runs_);
    for (Row& row : out_.rows) {
      out_.missing_runs += row.missing_rounds;
      if (row.ok()) compare(row);
    }
    find_drift();
    out_.noise = noise_of(stored_.noise);
    out_.gpu = gpu_steps_of(out_.runs);
    meet_programs();
    out_.ablation = rank_ablation(stored_.experiment, out_.rows);
    out_.scaling = find_scaling(out_);
    out_.findings = findings(out_);
    out_.headline = headline(out_);
    return std::move(out_);
  }

 private:
  const Variant& variant_of(const Row& row) const {
    return stored_.variants[static_cast<size_t>(row.variant)];
  }

  bool same_task(int64_t a, int64_t b) const {
    return optrush::same_task(stored_.variants[static_cast<size_t>(a)].spec,
                              stored_.variants[static_cast<size_t>(b)].spec);
  }

  Comparison against(const Row& row, int64_t other) const {
    Comparison c;
    const Row* reference = out_.row(other);
    if (!reference) return c;
    c.variant = other;
    c.name = reference->name;
    c.differs = difference_of_problems(stored_, row.variant, stored_, other);
    if (row.runs_of() == reference->runs_of())
      c.speed = Ratio{.rounds = row.samples.size(), .same_run = true};
    else
      c.speed = paired_speed(row, *reference, standard_of(stored_.experiment));
    if (same_task(row.variant, other))
      c.worse = trains_worse({row.steps, row.validation}, {reference->steps, reference->validation});
    if (row.memory.allocated && reference->memory.allocated.value_or(0) > 0)
      c.memory = *row.memory.allocated / *reference->memory.allocated;
    return c;
  }

  /// The rungs of a row's stack above another row, in order.
  std::vector<std::string> between(const Row& row, int64_t other) const {
    std::vector<std::string> names;
    for (const Row* below = out_.row(variant_of(row).previous); below && below->variant != other;
         below = out_.row(variant_of(*below).previous))
      names.insert(names.begin(), below->name);
    return names;
  }

  /// Previous is the nearest row below that is ok, preferably of the same problem. Base is variant 0,
  /// otherwise the first row of the stack that is ok.
  void compare(Row& row) {
    std::vector<int64_t> below;  // variants below, nearest first
    for (int64_t i = variant_of(row).previous; i >= 0; i = stored_.variants[static_cast<size_t>(i)].previous)
      if (out_.row(i)->ok()) below.push_back(i);
    if (below.empty()) return;
    const auto same = std::ranges::find_if(
        below, [&](int64_t i) { return difference_of_problems(stored_, row.variant, stored_, i).empty(); });
    row.previous = against(row, same == below.end() ? below.front() : *same);
    row.previous.between = between(row, row.previous.variant);
    row.base = against(row, below.back());
    if (below.back() != 0) row.notes.push_back("the base failed, so '" + row.base.name + "' replaces it");
  }

  void meet_programs() {
    const auto slower = [](const Row* a, const Row* b) {
      return *a->tokens_per_second < *b->tokens_per_second;
    };
    std::vector<const Row*> own, others;
    for (const Row& row : out_.rows)
      // A rung that trains worse than the base does not count as fastest.
      if (row.ok() && row.tokens_per_second && (row.external || !row.base.worse))
        (row.external ? others : own).push_back(&row);
    std::ranges::stable_sort(others, [&](const Row* a, const Row* b) { return slower(b, a); });
    for (const Row* other : others) {
      std::vector<const Row*> same = own;
      std::erase_if(same, [&](const Row* row) {
        return !difference_of_problems(stored_, row->variant, stored_, other->variant).empty();
      });
      if (same.empty()) continue;
      const auto alike = [&](const Row* row) { return row->devices == other->devices; };
      if (std::ranges::any_of(same, alike)) std::erase_if(same, [&](const Row* row) { return !alike(row); });
      const Row& fastest = **std::ranges::max_element(same, slower);
      out_.programs.push_back({other->variant, fastest.variant, against(fastest, other->variant)});
    }
  }

  void find_drift() {
    const auto runs = runs_.of(0, Purpose::drift);
    if (runs.empty() || !runs_.sound(*runs.back()) || !out_.rows.front().ok()) return;
    const auto last = runs.back()->result.tokens_per_second;
    if (last && out_.rows.front().tokens_per_second)
      out_.drift = Drift{*out_.rows.front().tokens_per_second, *last};
  }

  const Stored& stored_;
  Analysis out_;
  const VariantRuns runs_;
};
}  // namespace

std::optional<double> mfu_denominator(const Json& context) {
  const auto peak = context.find("peak");
  if (peak == context.end()) return std::nullopt;
  const auto flops = number(*peak, "mfu_denominator");
  return flops && *flops > 0 ? flops : std::nullopt;
}

bool peak_is_doubtful(const Json& context) {
  const auto peak = context.find("peak"), cpu = context.find("cpu");
  if (peak == context.end() || cpu == context.end() || !peak->is_object()) return false;
  return peak->value("source", "") == "measured" &&
         is_busy(number(*cpu, "busy").value_or(0), number(*cpu, "threads").value_or(1));
}

std::optional<double> peak_of_dtype(const Json& context, const std::string& dtype) {
  const Json::json_pointer pointer("/peak/dtype_flops/" + dtype);
  if (!context.contains(pointer) || !context.at(pointer).is_number()) return std::nullopt;
  return context.at(pointer).get<double>();
}

Standard standard_of(const Experiment& experiment) {
  // Determined by simulation (tests/unit/next_round_test.cpp).
  return experiment.until ? Standard{.error = 0.02} : Standard{};
}

bool Row::trains_on_fewer() const {
  return std::ranges::any_of(steps, [](const StepResult& step) {
    return step.trained < step.tokens || step.tokens < step.positions;
  });
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

Analysis analyze(const Stored& stored) { return Analyzer(stored, stored.runs).analyze(); }
Analysis analyze(Stored&& stored) {
  std::vector<StoredRun> runs = std::move(stored.runs);
  return Analyzer(stored, std::move(runs)).analyze();
}
}  // namespace optrush
