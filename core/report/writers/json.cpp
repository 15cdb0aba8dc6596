#include "analysis/numbers/verdict.h"
#include "analysis/quantities.h"
#include "base/files.h"
#include "base/text.h"
#include "report/claims/claims.h"
#include "report/writers/writers.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}
Json or_null(double value) { return value; }

Json of(const Analysis& a, const Row& row, const Comparison& c) {
  if (c.variant < 0) return nullptr;
  Json json = {{"variant", c.variant},
               {"rung", c.name},
               {"between", c.between},
               {"differs", c.differs},
               {"speed", ratio_json(c.speed)},
               {"memory", or_null(c.memory)},
               {"worse", c.worse ? Json{{"loss", c.worse->loss},
                                        {"other", c.worse->other},
                                        {"by", loss_name(c.worse->validated)}}
                                 : Json()}};
  if (!relation_of(a, row, c).advice.empty()) json["speed"]["more_rounds"] = nullptr;
  if (c.time_to_loss) json["time_to_loss"] = ratio_json(c.time_to_loss);
  if (c.perplexity) {
    const auto& interval = c.perplexity->interval;
    json["loss"] = {{"difference", std::log(c.perplexity->value)},
                    {"interval", interval ? Json{std::log(interval->low), std::log(interval->high)} : Json()},
                    {"rounds", c.perplexity->rounds}};
  }
  return json;
}

Json of(const RoundEnd& end) {
  return {{"round", end.round},
          {"seed", end.seed},
          {"steps", end.steps},
          {"seconds", end.seconds},
          {"last", end.last},
          {"by", loss_name(end.validated)},
          {"seconds_to_loss", or_null(end.time ? end.time->seconds : std::nullopt)},
          {"steps_to_loss", or_null(end.time ? end.time->steps : std::nullopt)}};
}

template <class Pairs>
Json object(const Pairs& pairs) {
  Json json = Json::object();
  for (const auto& [name, value] : pairs) json[name] = or_null(value);
  return json;
}

Json gate_of(const Row& row) {
  const bool compared = row.verdict.compared;
  const Deviation& loss = row.verdict.loss;
  const auto deviation = [](const std::optional<Deviation>& d) {
    return d ? Json{{"worst", d->worst}, {"at_step", d->at_step}, {"tolerance", d->tolerance}} : Json();
  };
  return {{"explanation", row.gate},
          {"checked", row.checked},
          {"compared", compared},
          {"at_step", compared ? Json(loss.at_step) : Json()},
          {"later", deviation(row.verdict.later)},
          {"gradient_norm", deviation(row.verdict.norm)},
          {"message", row.verdict.message}};
}

/// [lower bound, upper bound] of a step's peak, if the plan has only bounds.
Json bounds_of(const Row& row) {
  if (!row.planned_memory || row.planned_memory->bounded_by.empty()) return nullptr;
  return {row.planned_memory->least, row.planned_memory->peak};
}

Json of(const Published& published, bool here) {
  return {{"on", published.on}, {"source", published.source}, {"comparable", here}};
}

Json of(const ValidationPoint& point) { return {{"step", point.step}, {"loss", point.loss}}; }

Json of(const CounterResult& counter) {
  return {{"plugin", counter.plugin},
          {"name", counter.name},
          {"unit", counter.unit},
          {"per", counter.per_step ? "step" : "run"},
          {"value", counter.value}};
}

Json of(const RankResult& rank) {
  return {{"rank", rank.rank},
          {"host", rank.host},
          {"device", rank.device},
          {"step_seconds", or_null(rank.step_seconds)},
          {"busy_seconds", or_null(rank.busy_seconds)},
          {"exposed_seconds", or_null(rank.exposed_seconds)},
          {"peak_allocated", or_null(rank.peak_allocated)},
          {"peak_reserved", or_null(rank.peak_reserved)},
          {"process", or_null(rank.process)},
          {"parts", or_null(rank.parts)},
          {"sent_bytes", or_null(rank.sent_bytes)}};
}

Json of(const ScalingSeries& series, const Analysis& a) {
  const auto point_json = [&](const ScalingPoint& point) -> Json {
    return {{"variant", point.variant},
            {"rung", a.row(point.variant)->name},
            {"ranks", point.ranks},
            {"global_batch", point.global_batch},
            {"tokens_per_second", or_null(a.row(point.variant)->tokens_per_second)},
            {"speedup", ratio_json(point.speedup)},
            {"hardware", point.growth},
            {"efficiency", point.efficiency}};
  };
  return {{"kind", to_string(series.kind)},
          {"name", series.name},
          {"points", json_list(series.points, point_json)}};
}

Json of(const Noise& noise) {
  return {{"probes", noise.probes},
          {"spread", noise.spread},
          {"drift", noise.drift},
          {"stolen", or_null(noise.stolen)},
          {"waiting", or_null(noise.waiting)},
          {"running", or_null(noise.running)},
          {"throttled", or_null(noise.throttled)},
          {"quota_throttled_us", or_null(noise.quota_throttled_us)},
          {"settings", noise.settings}};
}

/// Writes all numbers at the places that quantities() states, except inside of values that are null.
void put_numbers(Json& json, const Analysis& a, const Row& row) {
  for (const Quantity& q : quantities()) {
    if (q.json.empty()) continue;
    const Json::json_pointer place("/" + q.json);
    if (Json& around = json[place.parent_pointer()]; !around.is_null())
      around[place.back()] = or_null(number_of(q, a, row));
  }
}

Json of(const Analysis& a, const Row& row) {
  const auto list = [](const auto& items) {
    return json_list(items, [](const auto& item) { return of(item); });
  };
  Json json = {{"variant", row.variant},
               {"rung", row.name},
               {"group", row.group},
               {"status", to_string(row.status)},
               {"reason", row.reason},
               {"notes", row.notes},
               {"devices", row.devices},
               {"mesh", record::written(row.mesh)},
               {"ranks", list(row.ranks)},
               {"collectives", record::written(row.collectives)},
               {"rounds", row.rounds},
               {"samples", row.samples},
               {"phases", object(row.phases)},
               {"vs_previous", of(a, row, row.previous)},
               {"vs_base", of(a, row, row.base)},
               {"published", row.published ? of(*row.published, row.published_here) : Json()},
               {"memory", {{"parts", object(row.memory.parts)}}},
               {"traced", row.traced.empty() ? Json() : Json::object()},
               {"costs", row.cost ? Json::object() : Json()},
               {"predicted_bounds", bounds_of(row)},
               {"loss_change_at", row.loss_change ? Json(row.loss_change_at) : Json()},
               {"validation", list(row.validation)},
               {"time_to_loss", json_of(row.time_to_loss)},
               {"counters", list(row.counters)},
               {"traces", row.traces},
               {"gate", gate_of(row)}};
  put_numbers(json, a, row);
  if (row.same_as >= 0) json["same_as"] = row.same_as;
  if (!a.experiment.seeds.empty()) json["seeds"] = list(row.ends);
  if (row.code) json["code"] = to_string(*row.code);
  if (!row.warnings.empty()) json["warnings"] = row.warnings;
  for (const SampledText& sampled : row.sample)
    json["sample"].push_back({{"prompt", sampled.prompt}, {"text", sampled.text}});
  if (row.best) json["best"] = {{"step", row.best->step}, {"loss", row.best->loss}};
  return json;
}
/// The parts, in order.
Json figures_of(const Analysis& a) {
  const auto ablation = [](const AblationLine& line) -> Json {
    return {{"rung", line.rung},
            {"in_stack", ratio_json(line.in_stack)},
            {"alone", ratio_json(line.alone)},
            {"memory_in_stack", or_null(line.memory_in_stack)},
            {"memory_alone", or_null(line.memory_alone)},
            {"differs", line.differs}};
  };
  const auto program = [&](const OtherProgram& other) -> Json {
    return {{"rung", other.comparison.name},
            {"fastest_rung", a.row(other.fastest)->name},
            {"speed", ratio_json(other.comparison.speed)}};
  };
  Json drift;
  if (a.drift)
    drift = {{"first", a.drift->first}, {"last", a.drift->last}, {"ratio", a.drift->last / a.drift->first}};
  const auto stored = [](const auto& part) { return to_json(part); };
  return {{"schema_version", 1},
          {"headline", headline(a)},
          {"finding", finding_text(a)},
          {"experiment", to_json(a.experiment)},
          {"missing_runs", a.missing_runs},
          {"rows", json_list(a.rows, [&](const Row& row) { return of(a, row); })},
          {"drift", drift},
          {"noise", a.noise ? of(*a.noise) : Json()},
          {"ablation", json_list(a.ablation, ablation)},
          {"programs", json_list(a.programs, program)},
          {"scaling", json_list(a.scaling, [&](const ScalingSeries& series) { return of(series, a); })},
          {"context", a.context},
          {"variants", json_list(a.variants, stored)},
          {"plans", json_list(a.plans, stored)},
          {"probes", json_list(a.probes, stored)},
          {"tried", record::written(a.tried)},
          {"runs", json_list(a.runs, &StoredRun::id)}};
}

Json cell_json(const std::optional<ComparedReports::Cell>& cell) {
  if (!cell) return nullptr;
  Json json = {{"status", to_string(cell->status)},
               {"speed_vs_first", ratio_json(cell->speed)},
               {"speed_over_base_vs_first", ratio_json(cell->over_base)},
               {"memory_vs_first", or_null(cell->memory_ratio)},
               {"differs", cell->differs},
               {"time_to_loss", json_of(cell->time_to_loss)}};
  for (const auto& [name, value] : cell->numbers) json[quantity(name).compared] = or_null(value);
  return json;
}

std::string line_of(const Json& part) { return part.dump(-1, ' ', true, Json::error_handler_t::replace); }
}  // namespace

Json ratio_json(const std::optional<Ratio>& ratio) {
  if (!ratio) return nullptr;
  Json interval;
  if (ratio->interval) interval = {ratio->interval->low, ratio->interval->high};
  const Verdict verdict = verdict_of(*ratio);
  return {{"value", ratio->value},
          {"interval", interval},
          {"rounds", ratio->rounds},
          {"verdict", to_string(verdict.outcome)},
          {"bound", verdict.outcome == Outcome::alike ? Json(verdict.bound) : Json()},
          {"more_rounds", or_null(verdict.more)}};
}

void write_results(const std::filesystem::path& file, const Analysis& a) {
  const Json figures = figures_of(a);
  std::string text;
  for (const auto& [name, part] : figures.items()) {
    text += (text.empty() ? "{\n" : ",\n") + line_of(name) + ": ";
    std::vector<std::string> items;
    if (part.is_array())
      for (const Json& item : part) items.push_back(line_of(item));
    text += items.empty() ? line_of(part) : "[\n " + join(items, ",\n ") + "\n]";
  }
  write_file(file, text + "\n}\n");
}

Json comparison_json(const ComparedReports& compared) {
  const auto report = [](const ComparedReports::Report& one) -> Json {
    return {{"name", one.name},
            {"folder", one.folder.string()},
            {"headline", one.headline},
            {"warnings", one.warnings}};
  };
  const auto fact = [](const ComparedReports::Fact& one) -> Json {
    return {{"key", one.key}, {"values", one.values}};
  };
  const auto rung = [](const ComparedReports::Line& line) -> Json {
    return {{"rung", line.rung}, {"reports", json_list(line.cells, cell_json)}};
  };
  return {{"schema_version", 1},
          {"headline", headline(compared)},
          {"reports", json_list(compared.reports, report)},
          {"context", json_list(compared.facts, fact)},
          {"rungs", json_list(compared.lines, rung)}};
}
}  // namespace optrush
