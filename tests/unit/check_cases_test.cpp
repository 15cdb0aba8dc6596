#include "plugin_check/cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "../scripts/described_plugins.h"
#include "../support/error_of.h"
#include "base/temporary_folder.h"
#include "plugin_check/case_end.h"

namespace optrush {
namespace {
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The cases of plugin files without code. Nothing runs.
class CheckCases : public ::testing::Test {
 protected:
  CheckCases() { testing::write_described_plugins(folder_.path()); }

  std::string folder() const { return folder_.path().string(); }
  std::vector<std::string> ids(std::vector<PluginUse> plugins, std::vector<CheckKind> kinds) const {
    const CheckRequest request{.plugins = std::move(plugins), .kinds = std::move(kinds)};
    std::vector<std::string> ids;
    for (const CheckCase& each : check_cases(request, Catalogue::find({folder()}), MachineOffer{}))
      ids.push_back(each.id);
    return ids;
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(CheckCases, APluginIsCheckedInTheFormsOfItsDescription) {
  EXPECT_THAT(
      ids({{"activation_checkpointing"}}, {CheckKind::types}),
      ElementsAre("types: activation_checkpointing", "types: activation_checkpointing(policy=every)"));
}

TEST_F(CheckCases, RequestedOptionsAreTheOnlyForm) {
  EXPECT_THAT(ids({{"activation_checkpointing", {{"every", 3}}}}, {CheckKind::types}),
              ElementsAre("types: activation_checkpointing(every=3)"));
  EXPECT_THAT(ids({{"activation_checkpointing"}, {"lora", {{"rank", 4}}}}, {CheckKind::types}),
              ElementsAre("types: activation_checkpointing", "types: activation_checkpointing(policy=every)",
                          "types: lora(rank=4)"))
      << "a plugin gets its own options";
}

TEST_F(CheckCases, PairsHaveARequestedPluginAndAnyOther) {
  const auto pairs = ids({{"lora", {{"rank", 4}}}}, {CheckKind::pair});
  EXPECT_THAT(pairs, Contains("pair: activation_checkpointing(policy=every) + lora(rank=4)"));
  for (const auto& id : pairs) EXPECT_THAT(id, HasSubstr("lora(rank=4)"));
}

TEST_F(CheckCases, WithoutValuesIsPartOfEachCase) {
  for (const bool without : {false, true})
    for (const CheckCase& each :
         check_cases({.plugins = {{"lora"}}, .without_values = without}, Catalogue::find({folder()}), {})) {
      EXPECT_EQ(each.without_values, without);
      EXPECT_EQ(check_case_from_json(to_json(each), "test").without_values, without);
    }
}

/// In fewer bits, tokens go to other experts, so values are not compared. A GPU computes these cases as well.
TEST_F(CheckCases, OnlyADeviceWithoutValuesSkipsMixturesOfExperts) {
  for (const bool computes : {true, false}) {
    size_t mixtures = 0;
    const CheckRequest request{
        .device = "cuda", .plugins = {{"mixed_precision"}}, .kinds = {}, .without_values = !computes};
    for (const CheckCase& each : check_cases(request, Catalogue::find({folder()}), MachineOffer{})) {
      const bool skipped = each.skip.find("how many tokens each expert has") != std::string::npos;
      const bool mixture = each.spec.model.value("n_experts", 0) > 0;
      EXPECT_EQ(skipped, mixture && !computes) << each.id;
      if (!mixture) continue;
      EXPECT_TRUE(each.without_values) << each.id << " compares values that fewer bits change";
      ++mixtures;
    }
    EXPECT_GT(mixtures, 0U);
  }
}

TEST_F(CheckCases, ASkippedCaseHasACode) {
  MachineOffer without_gpu;
  without_gpu.no_cuda = "needs a GPU";
  const Catalogue catalogue = Catalogue::find({folder()});
  const auto code_of_the_only = [&](CheckRequest request) {
    std::set<ErrorCode> codes;
    for (const CheckCase& each : check_cases(request, catalogue, without_gpu))
      if (!each.skip.empty()) codes.insert(check_case_from_json(to_json(each), "test").skip_code);
    return codes;
  };
  EXPECT_THAT(code_of_the_only({.plugins = {{"cuda_graphs"}}, .kinds = {CheckKind::alone}}),
              ElementsAre(ErrorCode::missing_requirement));
  EXPECT_THAT(code_of_the_only({.plugins = {{"packing"}}, .kinds = {CheckKind::pair}}),
              Contains(ErrorCode::conflict))
      << "dpo trains on other data";
}

TEST_F(CheckCases, EndOfACaseRoundTrips) {
  EXPECT_FALSE(to_json(CaseEnd{CaseStatus::ok, "losses are equal"}).contains("code"));
  const CaseEnd ended = ended_by(Error(ErrorCode::wrong_result, "differs"), CaseStatus::failed);
  const Json json = to_json(ended);
  EXPECT_EQ(json.at("code"), "wrong_result");
  EXPECT_EQ(to_json(case_end_from_json(json)), json);
  EXPECT_THAT(testing::error_of([] { case_end_from_json("failed"); }), HasSubstr("invalid"));
  EXPECT_THAT(testing::error_of([] {
                case_end_from_json({{"status", "ok"}, {"detail", ""}});
              }),
              HasSubstr("seconds"));
}

TEST_F(CheckCases, MissingPluginIsAnError) {
  EXPECT_THAT(testing::error_of([&] { ids({{"loar"}}, {}); }), HasSubstr("lora"));
}
}  // namespace
}  // namespace optrush
