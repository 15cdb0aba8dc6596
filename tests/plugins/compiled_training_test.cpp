// Training with the compile plugin, with Inductor and its C++ compiler: half a minute for each distinct unit.
// `optrush check --kind compiled` has stacks with every other plugin.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "measure/memory.h"
#include "model/operators.h"
#include "optrush/advanced/machine.h"
#include "support/folders.h"
#include "support/saved_state.h"
#include "support/slow_code.h"
#include "support/training.h"
#include "worker/predict.h"

namespace optrush::testing {
namespace {
namespace fs = std::filesystem;

/// The cache is kept between runs of the tests: a unit is compiled once for each version of its inputs.
const fs::path kCache = build_folder() + "/tests/inductor";

PluginUse compile(Json options = Json::object()) {
  options["cache"] = kCache.string();
  return {"compile", options};
}

RunSpec with_compile(std::vector<PluginUse> stack, Json options = Json::object()) {
  stack.push_back(compile(std::move(options)));
  return nano_spec(std::move(stack));
}

class CompiledTraining : public ::testing::Test {
 protected:
  void SetUp() override {
    if (project_python().empty()) GTEST_SKIP() << "there is no Python environment to compile with";
    // Loading Inductor takes seconds in each process that compiles.
    setenv("OPTRUSH_PYTHON", (build_folder() + "/tests/bin/warm_python").c_str(), 1);
  }
};

void expect_equal_losses(const RunSpec& compiled, const RunSpec& eager, double tolerance,
                         const std::function<void(Recipe&)>& edit = {}) {
  const auto got = losses(Trained(compiled, edit).train());
  const auto expected = losses(Trained(eager, edit).train());
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_LE(std::abs(got[i] - expected[i]) / expected[i], tolerance) << "step " << i;
}

TEST_F(CompiledTraining, MatchesEagerInDoublePrecision) {
  RunSpec compiled = with_compile({{"flash_attention", Json::object()}});
  RunSpec eager = nano_spec({{"flash_attention", Json::object()}});
  compiled.train.dtype = eager.train.dtype = "fp64";
  compiled.train.steps = eager.train.steps = 6;
  expect_equal_losses(compiled, eager, 1e-12);
}

/// The forecast's bounds of a compiled step hold.
TEST_F(CompiledTraining, PeakIsWithinTheForecastBounds) {
  for (const auto& stack :
       {std::vector<PluginUse>{}, {{"flash_attention", Json::object()}, {"fused_kernels", Json::object()}}}) {
    const RunSpec spec = with_compile(stack);
    std::string why_not;
    const auto bounds = forecast(spec, at::kCPU, &why_not);
    ASSERT_TRUE(bounds) << why_not;
    install_cpu_memory_tracking();
    const int64_t before = cpu_allocated();
    const int64_t peak = Trained(spec).train()["memory"]["peak_allocated"].get<int64_t>() - before;
    EXPECT_LE(bounds->memory.least, static_cast<double>(peak));
    EXPECT_GE(bounds->memory.peak, static_cast<double>(peak));
  }
}

/// The compiled head multiplies with the padded matrix and trains the unpadded vocabulary.
TEST_F(CompiledTraining, PadsTheVocabularyInTheCompiledHead) {
  const PluginUse padding = {"vocab_padding", {{"multiple", 64}}};
  const auto spec_of = [](RunSpec spec) {
    spec.model["vocab_size"] = 61;
    spec.train.dtype = "fp64";
    return spec;
  };
  Trained plain(spec_of(nano_spec())), padded(spec_of(nano_spec({padding})));
  Trained compiled(spec_of(with_compile({padding})));
  const Json expected = plain.train(), got = compiled.train();
  for (size_t i = 0; i < losses(expected).size(); ++i)
    EXPECT_NEAR(losses(got)[i], losses(expected)[i], 1e-12 * losses(expected)[i]);
  EXPECT_EQ(got["flops_per_token"]["hfu"], padded.train()["flops_per_token"]["hfu"]);
  EXPECT_GT(got["flops_per_token"]["hfu"], expected["flops_per_token"]["hfu"]);
  const auto before = saved_state(plain.session(), 3), after = saved_state(compiled.session(), 3);
  ASSERT_EQ(before.size(), after.size());
  for (const auto& [key, value] : before) {
    ASSERT_EQ(value.sizes(), after.at(key).sizes()) << key;
    EXPECT_TRUE(at::allclose(after.at(key), value, 1e-9, 1e-12)) << key;
  }
}

/// No kernel is counted twice when compiled code calls the dispatcher.
TEST_F(CompiledTraining, CountsTheFlopsOfEagerCode) {
  const std::vector<PluginUse> stack = {{"flash_attention", Json::object()},
                                        {"fused_kernels", Json::object()}};
  const Json compiled = Trained(with_compile(stack)).train(), eager = Trained(nano_spec(stack)).train();
  EXPECT_EQ(compiled["flops_per_token"]["hfu"], eager["flops_per_token"]["hfu"]);
  EXPECT_EQ(compiled["costs"]["operators"]["optrush::compiled_unit"]["calls"], 6)
      << "2 blocks and the head, forward and backward";
}

TEST_F(CompiledTraining, AnotherModeGivesOtherCodeAndTheSameResults) {
  expect_equal_losses(with_compile({}, {{"mode", "max-autotune"}}), nano_spec(), 1e-5);
}

TEST_F(CompiledTraining, TechniquesThatRecomputeInABlockLeaveItToTheCompiler) {
  const std::vector<PluginUse> stack = {{"lora", {{"rank", 4}, {"target_modules", {"up_proj"}}}},
                                        {"swiglu_recompute", Json::object()},
                                        {"fused_linear_cross_entropy", Json::object()}};
  expect_equal_losses(with_compile(stack), nano_spec(stack), 1e-5);
}

/// Launches of a kernel in a step, as training counts them.
int64_t launches(const Json& result, const char* kernel) {
  const Json& operators = result["costs"]["operators"];
  return operators.contains(kernel) ? operators[kernel]["launches"].get<int64_t>() : 0;
}

TEST_F(CompiledTraining, LossWithItsOwnKernelStaysEagerUnlessNamed) {
  const std::vector<PluginUse> stack = {{"fused_linear_cross_entropy", {{"chunk", 20}}}};
  const auto expected = losses(Trained(nano_spec(stack)).train());
  for (const auto& [units, kernels, noted] :
       {std::tuple(Json::array(), 4, "1 distinct units compiled for 2,"),
        {Json{"block", "head"}, 0, "2 distinct units compiled for 3,"},
        {Json{"attention", "mlp"}, 4, "2 distinct units compiled for 4,"}}) {
    SCOPED_TRACE(units.dump());
    Trained trained(with_compile(stack, {{"units", units}}));
    const Json result = trained.train();
    EXPECT_EQ(launches(result, "optrush::cross_entropy"), kernels);  // 64 tokens, 20 at a time
    trained.session().recipe().fire(Event::finished, trained.session());
    const Json notes = trained.session().log().notes();
    EXPECT_NE(notes.dump().find(noted), std::string::npos) << notes;
    const auto got = losses(result);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5 * expected[i]);
  }
}

/// Outside of a compiled unit, a plugin's kernels run as without a compiler.
TEST_F(CompiledTraining, NormsBetweenCompiledPartsKeepTheirKernels) {
  const std::vector<PluginUse> stack = {{"fused_kernels", Json::object()}};
  const auto norms = [&](const Json& units) {
    const Json result = Trained(with_compile(stack, {{"units", units}})).train();
    return launches(result, "optrush::norm") + launches(result, "optrush::add_norm");
  };
  EXPECT_EQ(norms({"attention", "mlp"}), 2 * 2 + 1);
  EXPECT_EQ(norms({"block"}), 1);
}

TEST(Compile, ConflictingUnitsAndUnusedPoliciesAreRefused) {
  EXPECT_THROW(
      Trained(with_compile({{"activation_checkpointing", {{"policy", "selective"}}}}, {{"units", {"auto"}}})),
      Error);
  EXPECT_THROW(Trained(with_compile({}, {{"units", {"block", "mlp"}}})), Error);
  EXPECT_THROW(
      Trained(with_compile({{"activation_checkpointing", {{"policy", "selective"}}}}, {{"units", {"head"}}})),
      Error);
}

TEST_F(CompiledTraining, UsesTheGivenBackwardOfAPair) {
  // y = 2 x with a backward of 5. Inductor would derive 2 from the forward.
  static const Differentiable twice = {
      {.name = "twice",
       .forward =
           [](const Tensors& in) {
             return Differentiable::Result{{in[0] * 2}, {}};
           },
       .backward = [](const Tensors&, const Tensors& gradients) { return Tensors{gradients[0] * 5}; }}};
  static const Differentiable negated = {
      {.name = "negated",
       .forward =
           [](const Tensors& in) {
             return Differentiable::Result{{-in[0]}, {in[0]}};
           },
       .backward = [](const Tensors& saved,
                      const Tensors& gradients) { return Tensors{gradients[0] * saved[0].cos()}; }}};
  const auto two_pairs = [](Recipe& recipe) {
    recipe.ops.swiglu.replace(
        [](const Tensor& gate, const Tensor& up) {
          return call(negated, {call(twice, {plain::swiglu(gate, up)})[0]})[0];
        },
        {.trace = Trace::pair});
  };
  expect_equal_losses(with_compile({}), nano_spec(), 1e-5, two_pairs);
}

TEST_F(CompiledTraining, ValueThatWasTracedAsAConstantIsRefused) {
  const auto data_dependent = [](Recipe& recipe) {
    recipe.ops.swiglu.replace(
        [](const Tensor& gate, const Tensor& up) {
          return plain::swiglu(gate, up) * (1 + gate.abs().sum().item<double>());
        },
        {.trace = Trace::aten});
  };
  try {
    Trained(with_compile({}), data_dependent).train();
    ADD_FAILURE() << "it trained";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("differs from its eager code"), std::string::npos) << e.what();
  }
}

/// The numbers of artifacts in a cache and of Python processes that made them. Each process writes one log.
std::pair<size_t, size_t> artifacts_and_processes(const fs::path& cache) {
  size_t artifacts = 0, processes = 0;
  for (const auto& entry : fs::directory_iterator(cache)) {
    EXPECT_NE(entry.path().extension(), ".part") << "an unfinished artifact is left";
    artifacts += entry.is_directory();
    processes += fs::exists(entry.path() / "log.txt");
  }
  return {artifacts, processes};
}

TEST_F(CompiledTraining, EqualBlocksAreCompiledOnceAndCachedUnitsNever) {
  static const fs::path cache = fs::temp_directory_path() / "optrush_compiles_once";
  fs::remove_all(cache);
  unsetenv("OPTRUSH_PYTHON");  // starts a new Python, as outside of tests
  const RunSpec spec = nano_spec({{"compile", {{"cache", cache.string()}}}});
  Trained first(spec);
  first.train();
  EXPECT_EQ(artifacts_and_processes(cache), std::pair(2UL, 1UL)) << "two equal blocks, and the head";
  setenv("OPTRUSH_PYTHON", "/bin/false", 1);  // cached units need no Python
  Trained second(spec);
  second.train();
  unsetenv("OPTRUSH_PYTHON");
  EXPECT_GT(second.session().log().compile_seconds(), 0);
  EXPECT_EQ(artifacts_and_processes(cache), std::pair(2UL, 1UL));
  fs::remove_all(cache);
}

TEST_F(CompiledTraining, PartsOfBlocksAreCompiledByOneProcess) {
  const fs::path cache = fs::temp_directory_path() / "optrush_compiles_parts";
  fs::remove_all(cache);
  const std::vector<PluginUse> below = {{"mixed_precision", {{"dtype", "bf16"}}}, {"lora", {{"rank", 4}}}};
  std::vector<PluginUse> stack = below;
  stack.push_back({"compile", {{"cache", cache.string()}, {"units", {"attention", "mlp"}}}});
  expect_equal_losses(nano_spec(stack), nano_spec(below), 5e-2);
  // The first attention has an input without a gradient.
  EXPECT_EQ(artifacts_and_processes(cache), std::pair(3UL, 1UL));
  fs::remove_all(cache);
}

std::string notes_after_training(Trained& trained) {
  trained.session().recipe().fire(Event::finished, trained.session());
  return Json(trained.session().log().notes()).dump();
}

double graphs(const Json& result) { return result.at("counters").at("compile").at(1).at("value"); }

using Slow = Tensor(const Tensor&);
std::function<void(Recipe&)> swiglu_that_is(Slow* slow) {
  return [slow](Recipe& recipe) {
    recipe.ops.swiglu.replace(
        [slow](const Tensor& gate, const Tensor& up) { return slow(plain::swiglu(gate, up)); },
        {.trace = Trace::aten});
  };
}

TEST_F(CompiledTraining, AutoCompilesUnitsThatBecomeFaster) {
  const fs::path cache = fs::temp_directory_path() / "optrush_auto";
  fs::remove_all(cache);
  const RunSpec spec = nano_spec({{"compile", {{"cache", cache.string()}, {"units", {"block", "auto"}}}}});
  const Json eager = Trained(nano_spec()).train();
  {
    Trained trained(spec, swiglu_that_is(slow_eager));
    const Json result = trained.train();
    EXPECT_EQ(graphs(result), 1);
    EXPECT_NE(notes_after_training(trained).find("model.layers.0 and 1 unit like it are compiled"),
              std::string::npos)
        << notes_after_training(trained);
    for (size_t i = 0; i < losses(eager).size(); ++i)
      EXPECT_NEAR(losses(result)[i], losses(eager)[i], 1e-5 * losses(eager)[i]);
  }
  {
    Trained trained(spec, swiglu_that_is(slow_compiled));
    const Json result = trained.train();
    EXPECT_EQ(graphs(result), 0);
    EXPECT_NE(notes_after_training(trained).find("model.layers.0 and 1 unit like it are eager"),
              std::string::npos)
        << notes_after_training(trained);
    EXPECT_EQ(losses(result), losses(eager)) << "measuring changes no value and no gradient";
  }
  // The choice is stored with the code. A later run makes the same choice, independent of its measurements.
  for (const auto& entry : fs::directory_iterator(cache / "choices")) {
    Json choice = Json::parse(std::ifstream(entry.path()));
    std::swap(choice["compiled_seconds"], choice["eager_seconds"]);
    std::ofstream(entry.path()) << choice.dump();
  }
  Trained later(spec, swiglu_that_is(slow_compiled));
  EXPECT_EQ(graphs(later.train()), 1);
  fs::remove_all(cache);
}

TEST_F(CompiledTraining, ChangedShapeIsCompiledAgainAndReported) {
  Trained trained(with_compile({}), [](Recipe& recipe) {
    // The third step has half of the sequence.
    recipe.data.wrap(Phase::prefetch, [](auto inner) {
      return [inner](int64_t step) {
        auto batches = inner(step);
        if (step == 2)
          for (Batch& batch : batches) {
            batch.tokens = batch.tokens.slice(1, 0, 8).contiguous();
            batch.labels = batch.labels.slice(1, 0, 8).contiguous();
            batch.positions = batch.positions.slice(1, 0, 8).contiguous();
            batch.valid_tokens /= 2;
          }
        return batches;
      };
    });
  });
  std::vector<std::string> phases;
  trained.session().log().show_progress([&](const std::string& phase) { phases.push_back(phase); });
  trained.train();
  const std::vector<std::string> first = {"warmup", "compiling model.layers.0", "warmup",
                                          "compiling model.layers.1"};
  ASSERT_GE(phases.size(), first.size());
  EXPECT_TRUE(std::equal(first.begin(), first.end(), phases.begin()));
  const auto& notes = trained.session().log().notes();
  EXPECT_TRUE(std::any_of(notes.begin(), notes.end(), [](const std::string& note) {
    return note.find("model.layers.0 was recompiled at step 2") != std::string::npos;
  }));
}

TEST_F(CompiledTraining, AUnitThatCannotBeTracedAheadIsCompiledAtItsCall) {
  // The second call is the trace of the second block, ahead of its first call.
  int64_t calls = 0;
  Trained trained(with_compile({}), [&calls](Recipe& recipe) {
    recipe.ops.swiglu.replace(
        [&calls](const Tensor& gate, const Tensor& up) {
          TORCH_CHECK(++calls != 2, "not with such an input");
          return plain::swiglu(gate, up);
        },
        {.trace = Trace::aten});
  });
  const Json result = trained.train();
  EXPECT_EQ(graphs(result), graphs(Trained(with_compile({})).train()));
  EXPECT_NE(
      Json(trained.session().log().notes())
          .dump()
          .find("compile: model.layers.1 is compiled at its first call, not ahead: not with such an input"),
      std::string::npos);
}

TEST_F(CompiledTraining, ValidationUsesTheCodeOfTraining) {
  RunSpec spec = with_compile({});
  const auto alone = losses(Trained(spec).train());
  spec.validate.every = 1;
  Trained trained(spec);
  const Json result = trained.train();
  EXPECT_EQ(losses(result), alone);
  for (const auto& note : trained.session().log().notes())
    EXPECT_EQ(note.find("recompiled"), std::string::npos) << note;
  const Json& counters = result.at("counters").at("compile");
  EXPECT_EQ(counters.at(1).at("name"), "graphs");
  EXPECT_EQ(counters.at(1).at("value"), 2);  // the block and the head
  spec.plugins.clear();
  const Json eager = Trained(spec).train();
  for (size_t i = 0; i < eager.at("validation").size(); ++i)
    EXPECT_NEAR(result["validation"][i]["loss"], eager["validation"][i]["loss"], 1e-4);
}

TEST_F(CompiledTraining, SelectiveAndBudgetBecomeThePartitionersPolicy) {
  const auto activations = [](std::vector<PluginUse> stack) {
    RunSpec spec = with_compile(std::move(stack));
    spec.train.warmup = 2;
    return Trained(spec).train()["memory"]["parts"]["activations"].get<int64_t>();
  };
  const int64_t all = activations({});
  const int64_t selective = activations({{"activation_checkpointing", {{"policy", "selective"}}}});
  const int64_t budget = activations({{"activation_checkpointing", {{"policy", "budget"}, {"budget", 0.3}}}});
  EXPECT_LE(selective, all);
  EXPECT_LT(budget, all);
}

TEST_F(CompiledTraining, AFailingCompilerIsAnErrorWithItsLog) {
  const fs::path cache = fs::temp_directory_path() / "optrush_failing_compiler";
  fs::remove_all(cache);
  setenv("OPTRUSH_PYTHON", "/bin/false", 1);
  RunSpec spec = nano_spec({{"compile", {{"cache", cache.string()}}}});
  try {
    Trained(spec).train();
    ADD_FAILURE() << "it trained";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("Inductor could not compile (exit code 1)"), std::string::npos)
        << e.what();
  }
  unsetenv("OPTRUSH_PYTHON");
  fs::remove_all(cache);
}
}  // namespace
}  // namespace optrush::testing
