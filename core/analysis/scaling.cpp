#include "analysis/scaling.h"

#include <algorithm>
#include <map>

#include "analysis/analysis.h"
#include "analysis/numbers/format.h"
#include "base/text.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
/// Rows with the same model, data and plugins.
struct RowFamily {
  Json rest;                         ///< the problem without ranks and batch
  std::map<std::string, Json> uses;  ///< plugins with options, except those that only change the batch
  Rows members;                      ///< in order of the report
};

std::map<std::string, Json> uses_of(const Variant& variant, const Plan& plan) {
  std::map<std::string, Json> uses;
  for (const auto& use : variant.spec.plugins) {
    const auto listed = std::ranges::find(plan.plugins, use.name, &UsedPlugin::name);
    if (listed == plan.plugins.end() || listed->effect != Effect::batch) uses[use.name] = use.options;
  }
  if (variant.external) uses["command"] = record::written(*variant.external);
  return uses;
}

Json rest_of(const Variant& variant, const Plan& plan) {
  Json problem = to_json(plan.problem);
  for (const char* key : {"world_size", "micro_batch", "accumulation", "global_batch"}) problem.erase(key);
  return {problem,
          plan.model,
          to_json(variant.spec.data),
          variant.spec.device,
          variant.spec.threads,
          variant.spec.environment};
}

class Finder {
 public:
  explicit Finder(const Analysis& analysis) : a_(analysis) {}

  std::vector<ScalingSeries> find() {
    for (const Row& row : a_.rows)
      if (counts(row) && row.same_as < 0) add(row);
    for (RowFamily& family : families_) {
      if (std::ranges::none_of(family.members, [](const Row* row) { return row->devices > 1; })) continue;
      adopt_fewer_ranks(family);
      add_series(family, Scaling::weak,
                 [](const TrainSpec& train) { return std::pair(train.micro_batch, train.accumulation); });
      add_series(family, Scaling::strong,
                 [](const TrainSpec& train) { return std::pair(train.global_batch, int64_t{0}); });
    }
    tell_apart();
    return std::move(series_);
  }

 private:
  bool counts(const Row& row) const { return row.ok() && row.tokens_per_second && a_.plan(row.variant); }
  const Plan& plan(int64_t variant) const { return *a_.plan(variant); }
  const TrainSpec& problem(const Row* row) const { return plan(row->variant).problem; }
  const Variant& variant(int64_t index) const { return a_.variant(index); }

  void add(const Row& row) {
    RowFamily family{rest_of(variant(row.variant), plan(row.variant)),
                     uses_of(variant(row.variant), plan(row.variant)),
                     {}};
    auto it = std::ranges::find_if(families_, [&](const RowFamily& other) {
      return other.rest == family.rest && other.uses == family.uses;
    });
    if (it == families_.end()) it = families_.insert(families_.end(), std::move(family));
    it->members.push_back(&row);
  }

  /// Adds the rung below the one with the fewest ranks, if the latter only adds ranks and the plugins that
  /// connect them.
  void adopt_fewer_ranks(RowFamily& family) {
    const Row& fewest = **std::ranges::min_element(family.members, {}, &Row::devices);
    int64_t below = variant(fewest.variant).previous;
    while (below >= 0 && !counts(*a_.row(below))) below = variant(below).previous;
    if (below < 0 || a_.row(below)->devices >= fewest.devices) return;
    const auto stays = [&](const auto& use) {
      const auto mine = family.uses.find(use.first);
      return mine != family.uses.end() && mine->second == use.second;
    };
    if (rest_of(variant(below), plan(below)) == family.rest &&
        std::ranges::all_of(uses_of(variant(below), plan(below)), stays))
      family.members.insert(family.members.begin(), a_.row(below));
  }

  /// Adds one series for each value of `same`.
  void add_series(const RowFamily& family, Scaling kind, auto&& same) {
    std::map<std::pair<int64_t, int64_t>, Rows> groups;
    for (const Row* row : family.members) {
      Rows& group = groups[same(problem(row))];
      if (std::ranges::find(group, row->devices, &Row::devices) == group.end()) group.push_back(row);
    }
    for (auto& [key, rows] : groups) {
      std::ranges::sort(rows, {}, &Row::devices);
      const bool grows = problem(rows.front()).global_batch != problem(rows.back()).global_batch;
      if (rows.size() < 2 || grows != (kind == Scaling::weak)) continue;
      if (auto made = series(kind, rows); made.points.size() > 1) series_.push_back(std::move(made));
    }
  }

  ScalingSeries series(Scaling kind, const Rows& rows) const {
    ScalingSeries series{kind, "", {}};
    const Row& first = *rows.front();
    for (const Row* row : rows) {
      ScalingPoint point{
          .variant = row->variant, .ranks = row->devices, .global_batch = problem(row).global_batch};
      if (row != &first) point.speedup = paired_speed(*row, first, a_.standard);
      point.growth = row->hardware / first.hardware;
      if (point.speedup) point.efficiency = point.speedup->value / point.growth;
      if (point.speedup || row == &first) series.points.push_back(point);
    }
    if (series.largest().ranks > 1) series.name = name_of(series.points);
    return series;
  }

  /// The first rung of a series with several ranks.
  const Variant& several(const std::vector<ScalingPoint>& points) const {
    return variant(std::ranges::find_if(points, [](const auto& p) { return p.ranks > 1; })->variant);
  }

  /// The plugins that connect the ranks: those that the rung with one rank lacks, otherwise those that the
  /// rung adds.
  std::vector<PluginUse> connecting(const std::vector<ScalingPoint>& points) const {
    const Variant& rung = several(points);
    const auto& below = variant(points.front().variant).spec.plugins;
    std::vector<PluginUse> uses;
    for (const auto& use : rung.spec.plugins)
      if (std::ranges::find(below, use.name, &PluginUse::name) == below.end()) uses.push_back(use);
    return uses.empty() ? rung.added : uses;
  }

  std::string name_of(const std::vector<ScalingPoint>& points) const {
    const Variant& rung = several(points);
    const auto uses = rung.external ? std::vector<PluginUse>() : connecting(points);
    return uses.empty() ? rung.name : join(texts_of(uses, &PluginUse::name), " + ");
  }

  /// The options in which a series differs from `others`: "stage 3".
  std::string differences(const ScalingSeries& series, const std::vector<ScalingSeries>& others) const {
    std::vector<std::string> parts;
    for (const auto& use : connecting(series.points))
      for (const auto& [key, value] : use.options.items()) {
        const auto same = [&, &option = key, &here = value](const ScalingSeries& other) {
          const auto uses = connecting(other.points);
          const auto it = std::ranges::find(uses, use.name, &PluginUse::name);
          return it == uses.end() || it->options.value(option, Json()) == here;
        };
        if (!std::ranges::all_of(others, same))
          parts.push_back(key + " " + (value.is_string() ? value.get<std::string>() : value.dump()));
      }
    return join(parts);
  }

  /// Distinguishes series with equal titles by their options, or by their largest rungs.
  void tell_apart() {
    const std::vector<ScalingSeries> before = series_;
    for (auto& series : series_) {
      std::vector<ScalingSeries> rivals = before;
      std::erase_if(rivals, [&](const ScalingSeries& other) { return other.title() != series.title(); });
      if (rivals.size() < 2) continue;
      const std::string options = differences(series, rivals);
      series.name +=
          options.empty() ? " up to " + a_.row(series.largest().variant)->name : " (" + options + ")";
    }
  }

  const Analysis& a_;
  std::vector<RowFamily> families_;
  std::vector<ScalingSeries> series_;
};
}  // namespace

std::string_view to_string(Scaling kind) { return kind == Scaling::weak ? "weak" : "strong"; }

std::string ScalingPoint::efficiency_text(int digits) const {
  return speedup && growth <= 1 ? kUnknown : percent(efficiency, digits);
}

std::string ScalingSeries::title() const { return name + ", " + std::string(to_string(kind)) + " scaling"; }

std::vector<ScalingSeries> find_scaling(const Analysis& analysis) { return Finder(analysis).find(); }
}  // namespace optrush
