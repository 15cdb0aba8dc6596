#include "analysis/compare.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "analysis/numbers/format.h"
#include "analysis/quantities.h"
#include "optrush/error.h"
#include "spec/spec_json.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
Analysis analyzed(const fs::path& folder) {
  Analysis analysis = analyze(load_report(folder));
  refuse_stand_in(analysis.context, folder.string());
  return analysis;
}

struct Fact {
  Json raw;
  std::string text = kUnknown;
};
using Facts = std::map<std::string, Fact>;

std::string with_unit_of(const std::string& path, double value) {
  const auto has = [&](const char* part) { return path.find(part) != std::string::npos; };
  if (has("bytes_per_second")) return byte_rate(value);
  if (has("bytes")) return bytes(value);
  return has("flops") || has("mfu_denominator") ? flops_rate(value) : grouped(value);
}

/// A value as text with few digits. The path tells whether it is bytes or FLOPs.
std::string leaf_text(const std::string& path, const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  const bool counts_bytes = path.ends_with("bytes") && value.is_number();
  if (value.is_number_float() || counts_bytes) return with_unit_of(path, value.get<double>());
  return value.dump();
}

/// Identifies an item by its name if it has one, so that an additional item does not shift the others.
std::string name_or_number(const Json& item, size_t number) {
  const auto name = item.is_object() ? item.find("name") : item.end();
  return name != item.end() && name->is_string() ? name->get<std::string>() : std::to_string(number);
}

/// Collects every leaf by its path: "cpu.name".
void flatten_facts(const std::string& path, const Json& json, Facts& facts, bool exact = false) {
  if (json.is_object())
    for (const auto& [key, value] : json.items())
      flatten_facts(path.empty() ? key : path + "." + key, value, facts, exact);
  else if (json.is_array() && !json.empty() && json.front().is_structured())
    for (size_t i = 0; i < json.size(); ++i)
      flatten_facts(path + "[" + name_or_number(json[i], i) + "]", json[i], facts, exact);
  else
    facts[path] = {json, exact && !json.is_string() ? json.dump() : leaf_text(path, json)};
}

/// A prefix of a hash that is long enough to tell hashes apart.
std::string short_hash(const std::string& sha256) { return sha256.substr(0, 12); }

/// The facts of a report: its machine, and the spec of its base.
Facts facts_of(const Analysis& side) {
  Facts facts;
  Json context = side.context;
  // These describe the moment and not the machine. A report itself warns about a busy machine.
  for (const char* of_the_moment : {"date", "warnings"}) context.erase(of_the_moment);
  if (const auto cpu = context.find("cpu"); cpu != context.end() && cpu->is_object())
    for (const char* load : {"busy", "load_average"}) cpu->erase(load);
  // The plugins that ran follow below.
  if (const auto plugins = context.find("plugins"); plugins != context.end() && plugins->is_array()) {
    Json names = Json::array();
    for (size_t i = 0; i < plugins->size(); ++i) names.push_back(name_or_number((*plugins)[i], i));
    *plugins = std::move(names);
  }
  flatten_facts("", context, facts);
  const Experiment& experiment = side.experiment;
  Json base = to_json(experiment.base);
  for (const char* of_the_run : {"experiment", "rung", "purpose", "variant", "round"}) base.erase(of_the_run);
  flatten_facts("base", base, facts, /*exact=*/true);
  flatten_facts("argument", experiment.arguments, facts, /*exact=*/true);
  if (const auto& until = experiment.until)
    facts["rounds"] = {record::written(*until),
                       "within " + percent(until->within) + " or " + duration(until->at_most_s)};
  else
    facts["rounds"] = {experiment.rounds, std::to_string(experiment.rounds)};
  if (experiment.target_loss > 0)
    facts["target_loss"] = {experiment.target_loss, exact_number(experiment.target_loss)};
  facts["script"] = {experiment.script, experiment.script};
  facts["script_sha256"] = {experiment.script_sha256, short_hash(experiment.script_sha256)};
  for (const auto& run : side.runs)
    for (const UsedPlugin& plugin : run.result.plugins)
      facts["plugin " + plugin.name] = {plugin.version + ", sha256 " + plugin.sha256,
                                        plugin.version + ", sha256 " + short_hash(plugin.sha256)};
  return facts;
}

std::vector<ComparedReports::Fact> differing_facts(const std::vector<Analysis>& sides) {
  std::vector<Facts> all;
  std::set<std::string> keys;
  for (const auto& side : sides) {
    all.push_back(facts_of(side));
    for (const auto& [key, value] : all.back()) keys.insert(key);
  }
  std::vector<ComparedReports::Fact> differing;
  for (const auto& key : keys) {
    ComparedReports::Fact fact{key, {}, {}};
    for (const auto& facts : all) {
      const auto found = facts.find(key);
      const Fact value = found == facts.end() ? Fact{} : found->second;
      fact.values.push_back(value.raw);
      fact.texts.push_back(value.text);
    }
    // Measured numbers never repeat exactly, so they count as different only if their texts differ.
    if (std::ranges::count(fact.texts, fact.texts.front()) != std::ssize(fact.texts))
      differing.push_back(std::move(fact));
  }
  return differing;
}

/// The standard of a report's ratios to the first report. The stricter of the two, because the rounds of
/// either may have ended when its intervals were narrow.
Standard standard_of(const Analysis& side, const Analysis& first) {
  Standard standard =
      std::ranges::min(standard_of(side.experiment), standard_of(first.experiment), {}, &Standard::error);
  const auto shared = std::ranges::count_if(
      side.rows, [&](const Row& row) { return row.ok() && row_named(first.rows, row.name) != nullptr; });
  // Of each rung the speed, and of each but the base the speed over the base.
  standard.intervals = static_cast<size_t>(std::max<int64_t>(2 * shared - 1, 1));
  return standard;
}

/// The variance of the machine's speed between two reports, estimated by the drift of each. It counts as
/// known, because two drifts have too few degrees of freedom for a useful interval.
double between_days(const Analysis& side, const Analysis& first) {
  double variance = 0;
  for (const auto* drift : {&side.drift, &first.drift})
    if (*drift) variance += std::pow(std::log((*drift)->last / (*drift)->first), 2);
  return variance;
}

ComparedReports::Cell cell_of(const Analysis& side, const Row& row, const Analysis& first,
                              const Row* reference) {
  ComparedReports::Cell cell{.status = row.status,
                             .trains_on_fewer = row.trains_on_fewer() || row.pads(),
                             .base_speed = row.base.speed,
                             .time_to_loss = row.time_to_loss};
  for (const Quantity& q : quantities())
    if (!q.compared.empty()) cell.numbers[q.csv] = number_of(q, side, row);
  if (reference == nullptr || &side == &first || !row.ok() || !reference->ok()) return cell;
  if (!row.samples.empty() && !reference->samples.empty())
    cell.speed =
        unpaired_ratio(row.samples, reference->samples, standard_of(side, first), between_days(side, first));
  const auto &speed = row.base.speed, &its_speed = reference->base.speed;
  if (speed && speed->interval && its_speed && its_speed->interval && row.base.name == reference->base.name)
    cell.over_base = quotient(*speed, *its_speed, standard_of(side, first));
  if (reference->memory.allocated.value_or(0) > 0 && row.memory.allocated)
    cell.memory_ratio = *row.memory.allocated / *reference->memory.allocated;
  cell.differs = difference_of_problems(side, row.variant, first, reference->variant);
  return cell;
}

/// "A" to "Z", then "AA" and so on.
std::string letters(size_t index) {
  const std::string last(1, static_cast<char>('A' + index % 26));
  return index < 26 ? last : letters(index / 26 - 1) + last;
}
}  // namespace

ComparedReports compare_reports(const std::vector<fs::path>& folders,
                                void (*add_answer)(const Analysis&, ComparedReports::Report&)) {
  if (folders.size() < 2)
    throw UsageError("a comparison needs two reports or more",
                     "optrush compare reports/x/before reports/x/after");
  std::vector<Analysis> sides;
  for (const auto& folder : folders) sides.push_back(analyzed(folder));
  ComparedReports compared;
  std::vector<std::string> rungs;
  for (size_t i = 0; i < sides.size(); ++i) {
    add_answer(sides[i], compared.reports.emplace_back(letters(i), folders[i]));
    for (const auto& row : sides[i].rows)
      if (std::ranges::find(rungs, row.name) == rungs.end()) rungs.push_back(row.name);
  }
  compared.facts = differing_facts(sides);
  for (const auto& rung : rungs) {
    ComparedReports::Line line{rung, {}};
    const Row* reference = row_named(sides.front().rows, rung);
    for (const auto& side : sides) {
      const Row* row = row_named(side.rows, rung);
      line.cells.push_back(row == nullptr ? std::nullopt
                                          : std::optional(cell_of(side, *row, sides.front(), reference)));
    }
    compared.lines.push_back(std::move(line));
  }
  return compared;
}
}  // namespace optrush
