// The trace of an extra step: its content, and timed steps without a profiler.
#include <gtest/gtest.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <map>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "optrush/forecast.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
RunSpec traced_spec(std::vector<PluginUse> plugins = {}) {
  RunSpec spec = nano_spec(std::move(plugins));
  spec.train.accumulation = 2;
  spec.train.warmup = 2;
  spec.train.steps = 3;
  spec.trace = true;
  return spec;
}

/// The number of events by name.
std::map<std::string, int> names_in(const Json& trace) {
  std::map<std::string, int> names;
  for (const Json& event : trace.at("traceEvents"))
    if (event.value("ph", "") == "X") ++names[event.at("name").get<std::string>()];
  return names;
}

TEST(Trace, HasTheOperatorsOfOneStepInRangesOfItsPhases) {
  const TemporaryFolder folder;
  Trained trained(traced_spec());
  train(trained.session(), [](const Json&) {}, nullptr, {.trace = folder / "trace.json"});
  const auto names = names_in(read_json(folder / "trace.json"));
  EXPECT_EQ(names.at("forward"), 2);  // one for each micro-batch
  EXPECT_EQ(names.at("backward"), 2);
  EXPECT_EQ(names.at("optimizer"), 1);
  EXPECT_EQ(names.at("data"), 1);
  EXPECT_GT(names.at("aten::mm"), 2);
  EXPECT_FALSE(std::filesystem::exists(folder / "trace.json.tmp"));
}

TEST(Trace, NamesTheKernelsOfPlugins) {
  const TemporaryFolder folder;
  Trained trained(traced_spec(), [](Recipe& recipe) {
    recipe.on(Event::step_begin, Phase::measure, [](optrush::Run&) { const NotedKernel kernel("mine", 8); });
  });
  train(trained.session(), [](const Json&) {}, nullptr, {.trace = folder / "trace.json"});
  EXPECT_EQ(names_in(read_json(folder / "trace.json")).at("optrush::kernel::mine"), 1);
}

TEST(Trace, ChangesNeitherTheResultNorTheTimedSteps) {
  const TemporaryFolder folder;
  const auto trained = [&](bool trace, std::vector<bool>& profiled) {
    RunSpec spec = traced_spec({{"mixed_precision", {{"dtype", "fp16"}}}});
    spec.trace = trace;
    spec.validate.every = 3;
    Trained run(spec, [&](Recipe& recipe) {
      recipe.on(Event::step_end, Phase::measure,
                [&](optrush::Run&) { profiled.push_back(torch::profiler::impl::profilerEnabled()); });
    });
    return to_json(train(run.session(), [](const Json&) {}, nullptr, {.trace = folder / "trace.json"}));
  };
  std::vector<bool> with, without;
  const Json traced = trained(true, with), plain = trained(false, without);
  EXPECT_EQ(without, std::vector<bool>(5, false));
  EXPECT_EQ(with, std::vector<bool>({false, false, false, false, false, true}));
  EXPECT_EQ(losses(traced), losses(plain));
  EXPECT_EQ(traced.at("counters"), plain.at("counters"));
  EXPECT_EQ(traced.at("costs"), plain.at("costs"));
  for (size_t i = 0; i < traced.at("validation").size(); ++i)
    EXPECT_EQ(traced["validation"][i]["loss"], plain["validation"][i]["loss"]);
}
}  // namespace
}  // namespace optrush::testing
