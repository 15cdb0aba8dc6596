#include "plugin/needs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/error_of.h"
#include "plugin/description.h"

namespace optrush {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const MachineOffer kCompleteMachine{"", "", "", 90};

TEST(Needs, AreMetByACompleteMachine) {
  EXPECT_EQ(unmet_needs({}, {"no driver", "no Python", "no g++", 0}), "");
  EXPECT_EQ(unmet_needs({"cuda", "sm_80", "sm_90", "python", "compiler"}, kCompleteMachine), "");
}

TEST(Needs, EveryUnmetNeedHasItsReason) {
  const MachineOffer offer{"no NVIDIA driver", "torch is not installed", "g++ was not found", 0};
  EXPECT_EQ(unmet_needs({"cuda", "python", "compiler"}, offer),
            "needs CUDA: no NVIDIA driver; needs Python: torch is not installed; "
            "needs a C++ compiler: g++ was not found");
}

TEST(Needs, AnOlderGpuIsNotEnough) {
  EXPECT_EQ(unmet_needs({"sm_100"}, kCompleteMachine), "needs a GPU of sm_100 or newer: this GPU is sm_90");
  EXPECT_EQ(unmet_needs({"sm_90"}, {"no NVIDIA driver", "", "", 0}),
            "needs a GPU of sm_90: no NVIDIA driver");
}

std::string note(const std::string& needs) {
  return R"({"api":)" + std::to_string(host_api()) + R"(,"abi":"x"})" + "\n" +
         R"({"name":"p","version":"1","summary":"s","kind":"optimization","effect":"exact","needs":)" +
         needs + "}";
}

TEST(Description, EffectIsTheWidestOfPluginAndChoices) {
  const auto plugin =
      parse_description(R"({"api":)" + std::to_string(host_api()) + R"(,"abi":"x"})" + "\n" + R"({
    "name": "p", "version": "1", "summary": "s", "kind": "optimization", "effect": "rounding", "options": [
      {"name": "wire", "type": "string", "default": "none", "choices": ["none", "bf16", "same"], "doc": "d",
       "effects": {"bf16": "precision", "same": "exact"}},
      {"name": "parts", "type": "list", "default": [], "choices": ["a", "b"], "doc": "d", "effects": {"b": "model"}},
      {"name": "approximate", "type": "boolean", "default": false, "doc": "d", "effects": {"true": "precision"}}]
  })",
                        "p.so");
  EXPECT_EQ(plugin.effect_with(Json::object()), Effect::rounding);
  EXPECT_EQ(plugin.effect_with({{"wire", "bf16"}}), Effect::precision);
  EXPECT_EQ(plugin.effect_with({{"wire", "same"}}), Effect::rounding);
  EXPECT_EQ(plugin.effect_with({{"approximate", true}}), Effect::precision);
  EXPECT_EQ(plugin.effect_with({{"approximate", true}, {"parts", {"a", "b"}}}), Effect::model);
}

TEST(Needs, AreReadFromADescription) {
  EXPECT_THAT(parse_description(note(R"(["cuda","sm_90"])"), "p.so").needs, ElementsAre("cuda", "sm_90"));
  EXPECT_THAT(testing::error_of([] { parse_description(note(R"(["cuda","tpu"])"), "p.so"); }),
              HasSubstr("tpu"));
}
}  // namespace
}  // namespace optrush
