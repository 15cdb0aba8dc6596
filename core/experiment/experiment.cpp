#include "experiment/experiment.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "optrush/error.h"
#include "spec/value.h"

namespace optrush {
namespace {
constexpr double kLargestFactor = 1000;
constexpr std::string_view kExternal = "program that runs instead of the worker",
                           kExpect = "published figures for this change";

/// Seconds per unit; 0 for an unknown unit.
double seconds_in(std::string_view unit) {
  if (unit.empty() || unit == "s") return 1;
  if (unit == "m" || unit == "min") return 60;
  return unit == "h" ? 3600 : 0;
}
}  // namespace

Record<Until> record_of(const Until*) {
  using T = Until;
  return Record<T>::given("until")
      .field("within", &T::within, "half width of the intervals; 0.03 is ±3 %",
             {.required = true, .min = 0.0001, .max = 1})
      .field("at_most_s", &T::at_most_s, "time limit of the measurement in seconds",
             {.required = true, .min = 0.001})
      .field("enough_s", &T::enough_s, "seconds after which a decided comparison is enough", {.min = 0})
      .field("race", &T::race, "whether rungs that can no longer win stop early");
}

Record<Published> record_of(const Published*) {
  using T = Published;
  return Record<T>::given("expect")
      .field("speedup", &T::speedup, "tokens/s relative to the rung below: 1.75 is 75 % more",
             {.min = 0, .max = kLargestFactor})
      .field("memory", &T::memory, "peak memory relative to the rung below: 0.7 is 30 % less",
             {.min = 0, .max = kLargestFactor})
      .field("source", &T::source, "publication", {.required = true})
      .field("on", &T::on, "device and problem, separated by a comma: \"A100-80GB, sequence 2048\"",
             {.required = true})
      .then([](const T& published) {
        if (published.speedup == 0 && published.memory == 0)
          throw Error(ErrorCode::missing_value, "expect has neither speedup nor memory",
                      "for example expect = { speedup = 1.75, source = ..., on = ... }");
        for (const auto& [name, text] :
             {std::pair("source", &published.source), std::pair("on", &published.on)})
          if (text->empty())
            throw Error(ErrorCode::invalid_value, std::string("expect.") + name + " is empty");
      });
}

Record<GridView> record_of(const GridView*) {
  using T = GridView;
  return Record<T>::given("view")
      .field("axes", &T::axes, "names of the axes")
      .field("columns", &T::columns, "columns of the table")
      .field("against", &T::against, "reference choice for the comparison")
      .field("x", &T::x, "numeric setting on the x axis of the curves")
      .field("curves", &T::curves, "quantities to draw over x")
      .brief_if([](const T& view) { return view == T{}; });
}

static Record<Rung> record_of(const Rung*) {
  using T = Rung;
  return Record<T>::given("rung")
      .field("name", &T::name, "name of the rung", {.required = true})
      .field("plugins", &T::plugins, "plugins that the rung stacks")
      .field("settings", &T::settings, "settings that the rung changes", {.type = "object"})
      .field("replace", &T::replace, "plugins that the rung's plugins replace")
      .field("without", &T::without, "plugins, or rungs of a program, that the rung removes")
      .field("over", &T::over, "rung of the ladder below this one")
      .field("program", &T::program, "changes of the program below")
      .field("where", &T::where, "script:line")
      .field("external", &T::external, kExternal)
      .field("expect", &T::expect, kExpect);
}

static Record<Part> record_of(const Part*) {
  using T = Part;
  return Record<T>::given("part")
      .field("arrangement", &T::arrangement, "arrangement of the rungs",
             {.required = true, .choices = {"ladder", "ablation", "grid"}})
      .field("rungs", &T::rungs, "rungs of a ladder or an ablation")
      .field("axes", &T::axes, "axes of a grid: lists of rungs")
      .field("view", &T::view, "layout of a grid in the report");
}

Record<Experiment> record_of(const Experiment*) {
  using T = Experiment;
  return Record<T>::given("experiment")
      .field("name", &T::name, "name of the experiment", {.required = true})
      .field("question", &T::question, "question that the experiment answers")
      .field("script", &T::script, "path of the script")
      .field("script_sha256", &T::script_sha256, "SHA-256 of the script")
      .field("arguments", &T::arguments, "arguments of the script", {.type = "object"})
      .field("base", &T::base, "spec of rung 0", {.required = true})
      .field("base_name", &T::base_name, "name of rung 0")
      .field("program", &T::program, "program of rung 0")
      .field("parts", &T::parts, "ladders, ablations, grids")
      .field("rounds", &T::rounds, "number of runs of each rung", {.min = 1})
      .field("seeds", &T::seeds, "seed of each round; left out: one seed", {.left_out = true, .min = 0})
      .field("until", &T::until, "precision and time limit that replace a number of rounds")
      .field("interleave", &T::interleave, "whether the runs of a round are interleaved step by step",
             {.choices = {"auto", "on", "off"}, .former = "turns"})
      .field("target_loss", &T::target_loss, "target of the validation loss; 0: none", {.min = 0})
      .field("stop_behind", &T::stop_behind, "lead at which the runs behind end; left out: never",
             {.left_out = true, .min = 0})
      .field("trace", &T::trace, "whether first rounds write a trace of a step")
      .field("max_restarts", &T::max_restarts,
             "how often a run that saves its state starts again after a fault", {.min = 0})
      .field("label", &T::label, "label of the report")
      .field("price_per_hour", &T::price_per_hour, "price of the machine per hour; 0: unknown", {.min = 0})
      .field("currency", &T::currency, "currency of the price");
}

Record<Variant> record_of(const Variant*) {
  using T = Variant;
  return Record<T>::given("variant")
      .field("index", &T::index, "line of the report; 0 is the base", {.required = true, .min = 0})
      .field("name", &T::name, "name of the rung", {.required = true})
      .field(
          "group", &T::group, "group of the rung",
          {.required = true, .choices = {"base", "ladder", "full", "without", "alone", "grid", "external"}})
      .field("previous", &T::previous, "variant that this one is compared with", {.min = -1})
      .field("spec", &T::spec, "spec of round 0", {.required = true})
      .field("added", &T::added, "plugins added to those of previous")
      .field("removed", &T::removed, "plugins of previous that are removed")
      .field("changed", &T::changed, "settings that differ from previous", {.type = "object"})
      .field("where", &T::where, "script:line")
      .field("passed_over", &T::passed_over, "rungs below that are invalid and skipped")
      .field("same_as", &T::same_as, "earlier variant with identical runs; -1: none", {.min = -1})
      .field("external", &T::external, kExternal)
      .field("expect", &T::expect, kExpect);
}

bool Published::comparable_with(const std::string& device) const {
  const auto wanted = plain_words(on.substr(0, on.find(','))), given = plain_words(device);
  return !wanted.empty() && std::ranges::all_of(wanted, [&](const std::string& word) {
    return std::ranges::find(given, word) != given.end();
  });
}

void set_seeds(const Json& given, Experiment& experiment, const std::string& where) {
  const auto whole = [](const Json& json, int64_t least) {
    return json.is_number_integer() && json.get<int64_t>() >= least;
  };
  std::vector<int64_t> seeds;
  if (whole(given, 1))
    for (int64_t i = 0; i < std::min(given.get<int64_t>(), kMostGivenRounds + 1); ++i)
      seeds.push_back(static_cast<int64_t>(experiment.base.train.seed) + i);
  else if (given.is_array() && std::ranges::all_of(given, [&](const Json& seed) { return whole(seed, 0); }))
    seeds = given.get<std::vector<int64_t>>();
  if (seeds.empty())
    throw Error(ErrorCode::invalid_value, "seeds cannot be " + shown(given),
                "give a number of seeds, such as 3, or a list of whole numbers from 0 on, such as 1, 2, 3",
                where);
  for (auto seed = seeds.begin(); seed != seeds.end(); ++seed)
    if (std::find(seeds.begin(), seed, *seed) != seed)
      throw Error(ErrorCode::conflict, "the seed " + std::to_string(*seed) + " is given twice",
                  "give every round a different seed: rounds with one seed do not show its influence", where);
  experiment.rounds = std::ssize(seeds);
  experiment.base.train.seed = static_cast<uint64_t>(seeds.front());
  experiment.seeds = std::move(seeds);
}

Experiment experiment_from_json(const Json& json, const std::string& where) {
  return fields_of<Experiment>().read(json, where);
}
Variant variant_from_json(const Json& json, const std::string& where) {
  return fields_of<Variant>().read(json, where);
}

double seconds_from(const Json& json, const std::string& where) {
  double seconds = 0;
  if (json.is_number()) seconds = json.get<double>();
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    const char* end = text.data() + text.size();
    const auto [rest, problem] = std::from_chars(text.data(), end, seconds);
    seconds = problem == std::errc() ? seconds * seconds_in({rest, end}) : 0;
  }
  if (!(seconds > 0) || !std::isfinite(seconds))
    throw Error(ErrorCode::invalid_value, shown(json) + " is not a duration above 0 seconds",
                R"(give seconds, or for example "90s", "5m", "1.5h")", where);
  return seconds;
}
}  // namespace optrush
