#include "experiment/experiment.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <vector>

#include "optrush/error.h"
#include "spec/fields.h"
#include "spec/spec_json.h"
#include "spec/value.h"

namespace optrush {
namespace {
constexpr double kLargestFactor = 1000;

const Fields<Until>& until_fields() {
  using T = Until;
  static const auto fields =
      Fields<T>()
          .required(
              &T::within,
              {.name = "within", .doc = "half width of the intervals; 0.03 is ±3 %", .min = 0.0001, .max = 1})
          .required(&T::at_most_s,
                    {.name = "at_most_s", .doc = "time limit of the measurement in seconds", .min = 0.001})
          .optional(
              &T::enough_s,
              {.name = "enough_s", .doc = "seconds after which a decided comparison is enough", .min = 0})
          .optional(&T::race, {.name = "race", .doc = "whether rungs that can no longer win stop early"});
  return fields;
}

/// Seconds per unit; 0 for an unknown unit.
double seconds_in(std::string_view unit) {
  if (unit.empty() || unit == "s") return 1;
  if (unit == "m" || unit == "min") return 60;
  return unit == "h" ? 3600 : 0;
}

const Fields<Published>& published_fields() {
  using T = Published;
  static const auto fields =
      Fields<T>()
          .optional(&T::speedup, {.name = "speedup",
                                  .doc = "tokens/s relative to the rung below: 1.75 is 75 % more",
                                  .min = 0,
                                  .max = kLargestFactor})
          .optional(&T::memory, {.name = "memory",
                                 .doc = "peak memory relative to the rung below: 0.7 is 30 % less",
                                 .min = 0,
                                 .max = kLargestFactor})
          .required(&T::source, {.name = "source", .doc = "publication"})
          .required(&T::on,
                    {.name = "on",
                     .doc = "device and problem, separated by a comma: \"A100-80GB, sequence 2048\""});
  return fields;
}

/// Splits "A100-80GB" into "a100" and "80gb". Lower case, because the case varies between names of devices.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0)
      words.back() += static_cast<char>(std::tolower(byte));
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

const Fields<GridView>& grid_view_fields() {
  using T = GridView;
  static const auto fields =
      Fields<T>()
          .optional(&T::axes, {.name = "axes", .doc = "names of the axes"})
          .optional(&T::columns, {.name = "columns", .doc = "columns of the table"})
          .optional(&T::against, {.name = "against", .doc = "reference choice for the comparison"})
          .optional(&T::x, {.name = "x", .doc = "numeric setting on the x axis of the curves"})
          .optional(&T::curves, {.name = "curves", .doc = "quantities to draw over x"});
  return fields;
}

// Declared here for the templates below.
Json to_json(const Rung&);
Json to_json(const std::vector<Rung>& axis);
Json to_json(const Part&);

/// A field that is a list of values with their own reader and writer.
template <class T, class M>
typename Fields<T>::Field list_of(std::vector<M> T::*member, M (*from_json)(const Json&, const std::string&),
                                  OptionSchema schema) {
  schema.type = "list";
  schema.fallback = Json::array();
  const auto read = [=](T& object, const Json& json, const std::string& subject, const std::string& where) {
    if (!json.is_array())
      throw Error(ErrorCode::invalid_value, subject + " must be a list, but is " + shown(json), {}, where);
    for (const auto& item : json) (object.*member).push_back(from_json(item, where));
  };
  const auto write = [=](const T& object) {
    Json json = Json::array();
    for (const auto& item : object.*member) json.push_back(to_json(item));
    return json;
  };
  return {schema, read, write};
}

template <class T>
typename Fields<T>::Field table(Json T::*member, OptionSchema schema) {
  schema.type = "object";
  schema.fallback = Json::object();
  return {schema,
          [=](T& object, const Json& json, const std::string& subject, const std::string& where) {
            object.*member = checked(schema, json, subject, where);
          },
          [=](const T& object) { return object.*member; }};
}

template <class T>
typename Fields<T>::Field run_spec(RunSpec T::*member, OptionSchema schema) {
  schema.type = "object";
  return {schema,
          [=](T& object, const Json& json, const std::string&, const std::string& where) {
            object.*member = run_spec_from_json(json, where);
          },
          [=](const T& object) { return to_json(object.*member); }};
}

/// A part that may be missing, as in older reports.
template <class T, class M>
typename Fields<T>::Field part(std::optional<M> T::*member, M (*from_json)(const Json&, const std::string&),
                               OptionSchema schema) {
  schema.type = "object";
  schema.fallback = Json::object();
  return {schema,
          [=](T& object, const Json& json, const std::string&, const std::string& where) {
            if (!json.empty()) object.*member = from_json(json, where);
          },
          [=](const T& object) { return object.*member ? to_json(*(object.*member)) : Json::object(); }};
}

const OptionSchema kExternal = {.name = "external", .doc = "program that runs instead of the worker"};
const OptionSchema kExpect = {.name = "expect", .doc = "published figures for this change"};

const Fields<Rung>& rung_fields() {
  using T = Rung;
  static const auto fields =
      Fields<T>()
          .required(&T::name, {.name = "name", .doc = "name of the rung"})
          .custom(list_of(&T::plugins, plugin_use_from_json,
                          {.name = "plugins", .doc = "plugins that the rung stacks"}))
          .custom(table(&T::settings, {.name = "settings", .doc = "settings that the rung changes"}))
          .optional(&T::replace, {.name = "replace", .doc = "plugins that the rung's plugins replace"})
          .optional(&T::without, {.name = "without", .doc = "plugins that the rung removes"})
          .optional(&T::over, {.name = "over", .doc = "rung of the ladder below this one"})
          .optional(&T::where, {.name = "where", .doc = "script:line"})
          .custom(part(&T::external, external_from_json, kExternal))
          .custom(part(&T::expect, published_from_json, kExpect));
  return fields;
}

Rung rung_from_json(const Json& json, const std::string& where) {
  return rung_fields().read(json, "rung", where);
}
Json to_json(const Rung& rung) { return rung_fields().write(rung); }

std::vector<Rung> axis_from_json(const Json& json, const std::string& where) {
  if (!json.is_array())
    throw Error(ErrorCode::invalid_value, "an axis must be a list of rungs, but is " + shown(json), {},
                where);
  std::vector<Rung> axis;
  for (const auto& rung : json) axis.push_back(rung_from_json(rung, where));
  return axis;
}
Json to_json(const std::vector<Rung>& axis) {
  Json json = Json::array();
  for (const auto& rung : axis) json.push_back(to_json(rung));
  return json;
}

Fields<Part>::Field view() {
  return {
      {.name = "view", .type = "object", .doc = "layout of a grid in the report", .fallback = Json::object()},
      [](Part& part, const Json& json, const std::string&, const std::string& where) {
        part.view = grid_view_from_json(json, where);
      },
      [](const Part& part) { return part.view == GridView{} ? Json::object() : to_json(part.view); }};
}

const Fields<Part>& part_fields() {
  using T = Part;
  static const auto fields =
      Fields<T>()
          .required(&T::arrangement, {.name = "arrangement",
                                      .doc = "arrangement of the rungs",
                                      .choices = {"ladder", "ablation", "grid"}})
          .custom(list_of(&T::rungs, rung_from_json,
                          {.name = "rungs", .doc = "rungs of a ladder or an ablation"}))
          .custom(
              list_of(&T::axes, axis_from_json, {.name = "axes", .doc = "axes of a grid: lists of rungs"}))
          .custom(view());
  return fields;
}

Part part_from_json(const Json& json, const std::string& where) {
  return part_fields().read(json, "part", where);
}
Json to_json(const Part& part) { return part_fields().write(part); }

const Fields<Experiment>& experiment_fields() {
  using T = Experiment;
  static const auto fields =
      Fields<T>()
          .required(&T::name, {.name = "name", .doc = "name of the experiment"})
          .optional(&T::question, {.name = "question", .doc = "question that the experiment answers"})
          .optional(&T::script, {.name = "script", .doc = "path of the script"})
          .optional(&T::script_sha256, {.name = "script_sha256", .doc = "SHA-256 of the script"})
          .custom(table(&T::arguments, {.name = "arguments", .doc = "arguments of the script"}))
          .custom(run_spec(&T::base, {.name = "base", .doc = "spec of rung 0"}))
          .optional(&T::base_name, {.name = "base_name", .doc = "name of rung 0"})
          .custom(list_of(&T::parts, part_from_json, {.name = "parts", .doc = "ladders, ablations, grids"}))
          .optional(&T::rounds, {.name = "rounds", .doc = "number of runs of each rung", .min = 1})
          .custom(part(&T::until, until_from_json,
                       {.name = "until", .doc = "precision and time limit that replace a number of rounds"}))
          .optional(&T::interleave, {.name = "interleave",
                                     .doc = "whether the runs of a round are interleaved step by step",
                                     .choices = {"auto", "on", "off"}})
          .formerly("turns", "interleave")
          .optional(&T::target_loss,
                    {.name = "target_loss", .doc = "target of the validation loss; 0: none", .min = 0})
          .optional(&T::trace, {.name = "trace", .doc = "whether first rounds write a trace of a step"})
          .optional(&T::max_restarts,
                    {.name = "max_restarts",
                     .doc = "how often a run that saves its state starts again after a fault",
                     .min = 0})
          .optional(&T::label, {.name = "label", .doc = "label of the report"})
          .optional(&T::price_per_hour,
                    {.name = "price_per_hour", .doc = "price of the machine per hour; 0: unknown", .min = 0})
          .optional(&T::currency, {.name = "currency", .doc = "currency of the price"});
  return fields;
}

const Fields<Variant>& variant_fields() {
  using T = Variant;
  static const auto fields =
      Fields<T>()
          .required(&T::index, {.name = "index", .doc = "line of the report; 0 is the base", .min = 0})
          .required(&T::name, {.name = "name", .doc = "name of the rung"})
          .required(&T::group,
                    {.name = "group",
                     .doc = "group of the rung",
                     .choices = {"base", "ladder", "full", "without", "alone", "grid", "external"}})
          .optional(&T::previous,
                    {.name = "previous", .doc = "variant that this one is compared with", .min = -1})
          .custom(run_spec(&T::spec, {.name = "spec", .doc = "spec of round 0"}))
          .custom(list_of(&T::added, plugin_use_from_json,
                          {.name = "added", .doc = "plugins added to those of previous"}))
          .optional(&T::removed, {.name = "removed", .doc = "plugins of previous that are removed"})
          .custom(table(&T::changed, {.name = "changed", .doc = "settings that differ from previous"}))
          .optional(&T::where, {.name = "where", .doc = "script:line"})
          .optional(&T::passed_over,
                    {.name = "passed_over", .doc = "rungs below that are invalid and skipped"})
          .optional(&T::same_as,
                    {.name = "same_as", .doc = "earlier variant with identical runs; -1: none", .min = -1})
          .custom(part(&T::external, external_from_json, kExternal))
          .custom(part(&T::expect, published_from_json, kExpect));
  return fields;
}
}  // namespace

bool Published::comparable_with(const std::string& device) const {
  const auto wanted = words_of(on.substr(0, on.find(','))), given = words_of(device);
  return !wanted.empty() && std::ranges::all_of(wanted, [&](const std::string& word) {
    return std::ranges::find(given, word) != given.end();
  });
}

Json to_json(const Published& published) { return published_fields().write(published); }

Published published_from_json(const Json& json, const std::string& where) {
  Published published = published_fields().read(json, "expect", where);
  if (published.speedup == 0 && published.memory == 0)
    throw Error(ErrorCode::missing_value, "expect has neither speedup nor memory",
                "for example expect = { speedup = 1.75, source = ..., on = ... }", where);
  for (const auto& [name, text] : {std::pair("source", &published.source), std::pair("on", &published.on)})
    if (text->empty())
      throw Error(ErrorCode::invalid_value, std::string("expect.") + name + " is empty", {}, where);
  return published;
}

Json to_json(const GridView& view) { return grid_view_fields().write(view); }
GridView grid_view_from_json(const Json& json, const std::string& where) {
  return grid_view_fields().read(json, "view", where);
}

Json to_json(const Experiment& experiment) { return experiment_fields().write(experiment); }
Experiment experiment_from_json(const Json& json, const std::string& where) {
  return experiment_fields().read(json, "experiment", where);
}

Json to_json(const Variant& variant) { return variant_fields().write(variant); }
Variant variant_from_json(const Json& json, const std::string& where) {
  return variant_fields().read(json, "variant", where);
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

Json to_json(const Until& until) { return until_fields().write(until); }
Until until_from_json(const Json& json, const std::string& where) {
  return until_fields().read(json, "until", where);
}
}  // namespace optrush
