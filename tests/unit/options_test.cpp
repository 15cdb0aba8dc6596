#include <gmock/gmock.h>

#include "../support/error_of.h"
#include "base/files.h"
#include "optrush/edit.h"
#include "optrush/options.h"
#include "optrush/run.h"
#include "support/folders.h"

namespace optrush {
namespace {
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::is_error;

const std::string kPlaceOfUse = "x.lua:12, plugin 'lora'";

std::vector<OptionSchema> schemas(const std::string& json) {
  std::vector<OptionSchema> schemas;
  for (const auto& option : parse_json(json, "test")) schemas.push_back(OptionSchema::parse(option, "test"));
  return schemas;
}

std::vector<OptionSchema> lora() {
  return schemas(R"([
    {"name": "rank", "type": "integer", "default": 8, "min": 1, "max": 1024, "doc": "rank of the update"},
    {"name": "alpha", "type": "number", "default": 16, "min": 0, "doc": "scale"},
    {"name": "fused", "type": "boolean", "default": false, "doc": "one kernel"},
    {"name": "init", "type": "string", "default": "zero", "choices": ["zero", "gaussian"], "doc": "of B"},
    {"name": "modules", "type": "list", "choices": ["wq", "wk", "wv"], "doc": "targets"}])");
}

Options options_from(const std::string& json) {
  return Options(lora(), parse_json(json, "test"), kPlaceOfUse);
}
std::string refused(const std::string& json) {
  return error_of([&] { options_from(json); });
}
std::string bad_schema(const std::string& json) {
  return error_of([&] { OptionSchema::parse(parse_json(json, "test"), "p.so"); });
}

TEST(Options, FillsInDefaultsInTheirOwnTypes) {
  const Options options = options_from(R"({"modules": ["wq", "wv"]})");
  EXPECT_EQ(options.integer("rank"), 8);
  EXPECT_EQ(options.number("alpha"), 16.0);
  EXPECT_FALSE(options.boolean("fused"));
  EXPECT_EQ(options.string("init"), "zero");
  EXPECT_THAT(options.list("modules"), ElementsAre("wq", "wv"));
  EXPECT_EQ(options.json().dump(),
            R"({"rank":8,"alpha":16.0,"fused":false,"init":"zero","modules":["wq","wv"]})");
}

TEST(Options, AcceptsNumbersAndListsOfLua) {
  const Options options = options_from(R"({"rank": 64.0, "alpha": 2, "modules": {}})");
  EXPECT_EQ(options.integer("rank"), 64);
  EXPECT_TRUE(options.json()["rank"].is_number_integer());
  EXPECT_EQ(options.number("alpha"), 2.0);
  EXPECT_TRUE(options.list("modules").empty());
}

TEST(Options, NamesTheNearestOption) {
  EXPECT_EQ(refused(R"({"rnk": 4, "modules": []})"),
            "unknown_name: " + kPlaceOfUse + ": unknown option 'rnk'\n  hint: did you mean 'rank'?");
  EXPECT_THAT(refused(R"({"zzzzzz": 4})"), HasSubstr("one of: alpha, fused, init, modules, rank"));
}

TEST(Options, NamesTheAllowedValues) {
  EXPECT_EQ(
      refused(R"({"rank": 0, "modules": []})"),
      "invalid_value: " + kPlaceOfUse + ": option 'rank' must be an integer between 1 and 1024, but is 0");
  EXPECT_THAT(refused(R"({"rank": 1025})"), HasSubstr("but is 1025"));
  EXPECT_THAT(refused(R"({"rank": 1.5})"), is_error("invalid_value", "1", "1024", "1.5"));
  EXPECT_THAT(refused(R"({"rank": "8"})"), HasSubstr("but is \"8\""));
  EXPECT_THAT(refused(R"({"rank": 9223372036854775808})"), HasSubstr("must be an integer"));
  EXPECT_THAT(refused(R"({"rank": 1e300})"), HasSubstr("must be an integer"));
  EXPECT_THAT(refused(R"({"rank": null})"), HasSubstr("but is null"));
  EXPECT_THAT(refused(R"({"alpha": -1})"), is_error("invalid_value", "'alpha'", "0.0", "-1"));
  EXPECT_THAT(refused(R"({"fused": 1})"), HasSubstr("must be true or false, but is 1"));
  EXPECT_THAT(refused(R"({"init": "zeroo"})"),
              AllOf(HasSubstr("must be one of 'zero', 'gaussian', but is \"zeroo\""),
                    HasSubstr("did you mean 'zero'?")));
  EXPECT_THAT(refused(R"({"init": ""})"), HasSubstr("must be one of"));
  EXPECT_THAT(refused(R"({"modules": ["wq", "wz"]})"), is_error("invalid_value", "'wq'", "'wk'", "'wv'"));
  EXPECT_THAT(refused(R"({"modules": "wq"})"), HasSubstr("must be a list of strings"));
  EXPECT_THAT(refused(R"({"modules": [1]})"), HasSubstr("must be a list of strings"));
  EXPECT_THAT(refused(R"([])"), HasSubstr("options must have named fields, but is []"));
}

TEST(Options, TablesOfNumbersByName) {
  const auto tables = schemas(R"([
    {"name": "ranks", "type": "integers", "min": 1, "max": 8, "default": {}, "doc": "d"},
    {"name": "scales", "type": "numbers", "min": 0, "default": {"a": 1}, "doc": "d"}])");
  const auto refused_table = [&](const std::string& given) {
    return error_of([&] { Options(tables, parse_json(given, "test"), kPlaceOfUse); });
  };
  EXPECT_EQ(Options(tables, parse_json(R"({"ranks": {"b": 2.0, "a": 8}})", "test"), "").json().dump(),
            R"({"ranks":{"b":2,"a":8},"scales":{"a":1.0}})");
  EXPECT_EQ(Options(tables, parse_json(R"({"ranks": []})", "test"), "").json().at("ranks"), Json::object());
  EXPECT_EQ(
      refused_table(R"({"ranks": {"a": 9}})"),
      "invalid_value: " + kPlaceOfUse +
          ": option 'ranks' must be a table { NAME = ... } of integers between 1 and 8, but is {\"a\":9}");
  EXPECT_THAT(refused_table(R"({"ranks": {"a": 1.5}})"), HasSubstr("of integers"));
  EXPECT_THAT(refused_table(R"({"ranks": [1]})"), HasSubstr("of integers"));
  EXPECT_THAT(refused_table(R"({"scales": {"a": -1}})"), HasSubstr("of numbers of at least 0.0"));
  EXPECT_THAT(refused_table(R"({"scales": {"a": "x"}})"), HasSubstr("of numbers"));
}

TEST(Options, NotFiniteNumbersAreRefused) {
  const Json infinite = {{"alpha", std::numeric_limits<double>::infinity()}, {"modules", Json::array()}};
  EXPECT_THAT(error_of([&] { Options(lora(), infinite, kPlaceOfUse); }),
              is_error("invalid_value", "'alpha'"));
}

TEST(Options, NamesTheRequiredOption) {
  EXPECT_EQ(refused("{}"),
            "missing_value: " + kPlaceOfUse +
                ": option 'modules' is required\n  hint: give a list of strings from 'wq', 'wk', "
                "'wv': targets");
}

TEST(Options, APluginMayReadOnlyWhatItDescribes) {
  const Options options = options_from(R"({"modules": []})");
  EXPECT_THAT(error_of([&] { options.integer("depth"); }), is_error("invalid_plugin", "'depth'"));
}

TEST(OptionSchema, RefusesInvalidSchemas) {
  EXPECT_THAT(
      bad_schema(R"({"name": "a", "type": "int", "doc": "d"})"),
      AllOf(HasSubstr("p.so: "), HasSubstr("'type' of option 'a' must be one of"), HasSubstr("'integer'")));
  EXPECT_THAT(bad_schema(R"({"type": "integer", "doc": "d"})"), is_error("missing_value", "'name'"));
  EXPECT_THAT(bad_schema(R"({"name": "a", "type": "integer"})"), is_error("missing_value", "'a'", "'doc'"));
  EXPECT_THAT(bad_schema(R"({"name": "a", "type": "integer", "doc": ""})"),
              is_error("invalid_value", "'doc'", "'a'"));
  EXPECT_THAT(bad_schema(R"({"name": "Rank", "type": "integer", "doc": "d"})"),
              HasSubstr("lower-case letters"));
  EXPECT_THAT(bad_schema(R"({"name": "2d", "type": "integer", "doc": "d"})"),
              HasSubstr("starts with a letter"));
  EXPECT_THAT(bad_schema(R"({"name": "a", "type": "integer", "doc": "d", "defualt": 1})"),
              is_error("unknown_name", "'defualt'", "'default'"));
  EXPECT_THAT(bad_schema(R"({"name": "a", "type": "integer", "doc": "d", "default": 0, "min": 1})"),
              is_error("invalid_value", "'default'", "'a'", "1", "0"));
  EXPECT_THAT(bad_schema(R"({"name": "a", "type": "integer", "doc": "d", "min": 2, "max": 1})"),
              HasSubstr("min 2 is above max 1"));
  EXPECT_THAT(bad_schema(R"({"name": "a", "type": "integer", "doc": "d", "min": "x"})"),
              is_error("invalid_value", "'min'", "'a'"));
  EXPECT_THAT(bad_schema(R"({"name": "a", "type": "string", "doc": "d", "max": 1})"),
              is_error("invalid_value", "'max'", "'a'"));
  EXPECT_THAT(bad_schema(R"({"name": "a", "type": "integer", "doc": "d", "choices": ["x"]})"),
              is_error("invalid_value", "'choices'", "'a'"));
  EXPECT_THAT(bad_schema(R"({"name": "a", "type": "string", "doc": "d", "choices": []})"),
              HasSubstr("are empty"));
  EXPECT_THAT(bad_schema(R"({"name": "a", "type": "list", "doc": "d", "choices": ["x"], "default": ["y"]})"),
              is_error("invalid_value", "'x'", "\"y\""));
  EXPECT_THAT(bad_schema(R"({"name": "a", "type": "integer", "doc": "d", "effects": {"1": "model"}})"),
              is_error("invalid_value", "'effects'", "'a'", "'choices'"));
  EXPECT_THAT(bad_schema(R"({"name": "a", "type": "string", "doc": "d", "choices": ["bf16"],
                             "effects": {"bf61": "precision"}})"),
              HasSubstr("did you mean 'bf16'?"));
  EXPECT_THAT(bad_schema(R"({"name": "a", "type": "boolean", "doc": "d", "effects": {"true": "precise"}})"),
              AllOf(HasSubstr("'effects' of option 'a', 'true' must be one of"), HasSubstr("'precision'")));
  EXPECT_THAT(bad_schema("3"), HasSubstr("must have named fields"));
}

TEST(Phase, EveryEnumeratorHasItsName) {
  EXPECT_EQ(to_string(Phase::base), "base");
  EXPECT_EQ(to_string(Phase::checkpoint), "checkpoint");
  EXPECT_EQ(to_string(Phase::measure), "measure");
  EXPECT_EQ(to_string(Event::mesh_initialized), "mesh_initialized");
  EXPECT_EQ(to_string(Event::finished), "finished");
}

TEST(Phase, TheDocsNameThemAllInOrder) {
  const std::string page = read_file(testing::tests_folder() + "/../docs/plugins/concepts.md");
  size_t at = 0;
  const auto expect_row = [&](std::string_view name) {
    const size_t found = page.find("| `" + std::string(name) + "` |", at);
    ASSERT_NE(found, std::string::npos) << name;
    at = found;
  };
  for (auto i = 0; i <= static_cast<int>(Effect::model); ++i) expect_row(to_string(static_cast<Effect>(i)));
  for (auto i = 0; i <= static_cast<int>(Event::finished); ++i) expect_row(to_string(static_cast<Event>(i)));
  for (auto i = 0; i <= static_cast<int>(Phase::measure); ++i) expect_row(to_string(static_cast<Phase>(i)));
}

TEST(Phase, EffectsRoundTrip) {
  for (const auto effect : {Effect::exact, Effect::rounding, Effect::precision, Effect::batch, Effect::model})
    EXPECT_EQ(effect_from_string(to_string(effect), "x"), effect);
  EXPECT_EQ(error_of([] { effect_from_string("exactly", "p.so"); }),
            "unknown_name: p.so: unknown effect 'exactly'\n  hint: did you mean 'exact'?");
}
}  // namespace
}  // namespace optrush
