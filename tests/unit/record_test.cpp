// One list of fields for values that a user gives, and for files that this program stores.
#include <gmock/gmock.h>

#include <map>
#include <optional>

#include "../support/error_of.h"
#include "spec/record.h"

namespace optrush {
namespace {
using testing::error_of;
using ::testing::HasSubstr;

enum class Shade : uint8_t { red, green };
}  // namespace

struct RecordedPart {
  int64_t number = 1;
};
static const Record<RecordedPart>& record_of(const RecordedPart*) {
  static const auto record =
      Record<RecordedPart>::given("inner").field("number", &RecordedPart::number, {.max = 9});
  return record;
}

namespace {
struct Recorded {
  double lr = 0.5;
  Shade shade = Shade::green;
  std::optional<RecordedPart> inner;
  std::vector<RecordedPart> list;
  std::map<std::string, std::string> texts;
};
Record<Recorded> recorded_fields(Record<Recorded> empty) {
  return empty.field("lr", &Recorded::lr, "rate", {.min = 0, .max = 1, .former = "rate"})
      .field("shade", &Recorded::shade, {.choices = {"red", "green"}})
      .field("inner", &Recorded::inner)
      .field("list", &Recorded::list)
      .field("texts", &Recorded::texts);
}
const Record<Recorded> kGivenRecord = recorded_fields(Record<Recorded>::given("outer"));
const Record<Recorded> kStoredRecord = recorded_fields(Record<Recorded>("an outer"));

std::string error_of_given(const Json& json) {
  return error_of([&] { kGivenRecord.read(json, "x.lua:5"); });
}
std::string error_of_stored(const Json& json) {
  return error_of([&] { kStoredRecord.read(json); });
}

TEST(Record, WritesWhatItReads) {
  const Json json = {{"lr", 0.25},
                     {"shade", "red"},
                     {"inner", {{"number", 3}}},
                     {"list", {{{"number", 4}}, {{"number", 5}}}},
                     {"texts", {{"a", "b"}}}};
  EXPECT_EQ(kGivenRecord.write(kGivenRecord.read(json)), json);
  EXPECT_EQ(kStoredRecord.write(kStoredRecord.read(json)), json);
}

TEST(Record, AMissingPartIsAnEmptyTableOfAUserAndNullInAFile) {
  EXPECT_EQ(kGivenRecord.write(Recorded{}).at("inner"), Json::object());
  EXPECT_EQ(kStoredRecord.write(Recorded{}).at("inner"), Json());
  EXPECT_FALSE(kGivenRecord.read({{"inner", Json::object()}}).inner);
  EXPECT_FALSE(kStoredRecord.read({{"inner", nullptr}}).inner);
}

TEST(Record, NullOfAUserIsNoValue) {
  EXPECT_THAT(error_of_given({{"lr", nullptr}}),
              HasSubstr("invalid_value: x.lua:5: outer.lr must be a number between 0 and 1, but is null"));
  EXPECT_EQ(kStoredRecord.read({{"lr", nullptr}}).lr, 0.5);
}

TEST(Record, ErrorsNameTheField) {
  EXPECT_THAT(error_of_given({{"lr", 2}}), HasSubstr("x.lua:5: outer.lr must be a number between 0 and 1"));
  EXPECT_THAT(error_of_stored({{"lr", "2"}}), HasSubstr("invalid_file: field 'lr' must be a number"));
  EXPECT_THAT(error_of_given({{"shade", "gren"}}), HasSubstr("did you mean 'green'?"));
  EXPECT_THAT(error_of_given({{"list", {{{"number", 10}}}}}), HasSubstr("inner.number must be an integer"));
  EXPECT_THAT(error_of_given({{"list", 3}}), HasSubstr("outer.list must be a list, but is 3"));
  EXPECT_THAT(error_of_given({{"texts", {{"a", 1}}}}), HasSubstr("outer.texts.a must be a string, but is 1"));
  EXPECT_THAT(error_of_stored({{"texts", {{"a", 1}}}}), HasSubstr("field 'texts', 'a' must be a string"));
  EXPECT_THAT(error_of_given({{"shdae", "red"}}), HasSubstr("did you mean 'shade'?"));
}

TEST(Record, AFormerNameIsReadInPlaceOfThePresentOne) {
  EXPECT_EQ(kGivenRecord.read({{"rate", 0.125}}).lr, 0.125);
  EXPECT_THAT(error_of_given({{"rate", 0.1}, {"lr", 0.2}}), HasSubstr("unknown field 'rate'"));
}

TEST(Record, OptionsHaveTheDefaultsOfTheStruct) {
  const auto options = kGivenRecord.options();
  EXPECT_EQ(options[0].fallback, 0.5);
  EXPECT_EQ(options[1].fallback, "green");
  EXPECT_EQ(options[1].choices, (std::vector<std::string>{"red", "green"}));
  EXPECT_EQ(options[2].type, "object");
  EXPECT_EQ(options[3].type, "list");
}
}  // namespace
}  // namespace optrush
