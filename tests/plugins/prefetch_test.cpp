// Prefetching: another thread makes batches one step ahead, and training has the same bits.
#include <gmock/gmock.h>

#include <atomic>
#include <latch>
#include <thread>

#include "measure/memory.h"
#include "optrush/scopes.h"
#include "optrush/step.h"
#include "support/error_of.h"
#include "support/training.h"
#include "worker/predict.h"

namespace optrush::testing {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const PluginUse kPrefetch = {"prefetch", Json::object()};
using Data = std::function<std::vector<Batch>(int64_t)>;

/// Edits the data below the plugin.
std::function<void(Recipe&)> on_data(std::function<std::vector<Batch>(const Data&, int64_t)> edit) {
  return [edit = std::move(edit)](Recipe& recipe) {
    recipe.data.wrap(Phase::context, [edit](Data inner) -> Data {
      return [edit, inner = std::move(inner)](int64_t step) { return edit(inner, step); };
    });
  };
}

TEST(Prefetch, TrainingIsBitEqual) {
  RunSpec spec = nano_spec();
  spec.train.steps = 5;
  spec.train.accumulation = 2;
  spec.validate = {.every = 2, .sequences = 6};
  const Json plain = Trained(spec).train();
  spec.plugins = {kPrefetch};
  const Json ahead = Trained(spec).train();
  EXPECT_EQ(losses(ahead), losses(plain));
  ASSERT_EQ(ahead["validation"].size(), plain["validation"].size());
  for (size_t i = 0; i < plain["validation"].size(); ++i)
    EXPECT_EQ(ahead["validation"][i]["loss"], plain["validation"][i]["loss"]);
}

/// Step 0 is made at once. Each other step is requested while the previous one runs.
TEST(Prefetch, PreparesTheNextStepDuringTheCurrentOne) {
  RunSpec spec = nano_spec({kPrefetch});
  spec.train.warmup = 1;
  spec.train.steps = 2;
  const auto trains = std::this_thread::get_id();
  std::vector<std::pair<int64_t, bool>> asked;  // each hand-over of a step orders the accesses
  std::latch begun(1), made(1);
  Trained trained(spec, [&](Recipe& recipe) {
    on_data([&](const Data& data, int64_t step) {
      asked.emplace_back(step, std::this_thread::get_id() == trains);
      if (step == 1) {
        begun.wait();  // only a concurrent schedule ends this wait
        made.count_down();
      }
      return data(step);
    })(recipe);
    recipe.schedule.wrap(Phase::measure, [&](auto inner) {
      return [&, inner](Step& step) {
        if (trained.session().step() == 0) {
          begun.count_down();
          made.wait();
        }
        inner(step);
      };
    });
  });
  trained.train();
  EXPECT_THAT(asked,
              ElementsAre(std::pair(0, true), std::pair(1, false), std::pair(2, false), std::pair(3, false)));
}

TEST(Prefetch, DataErrorEndsTheStepThatNeedsTheData) {
  RunSpec spec = nano_spec({kPrefetch});
  spec.train.steps = 4;
  std::vector<int64_t> trained_steps;
  Trained trained(spec, [&](Recipe& recipe) {
    on_data([](const Data& data, int64_t step) {
      if (step == 2) throw Error("token 7 of the corpus is torn", "mend it");
      return data(step);
    })(recipe);
    recipe.on(Event::step_end, Phase::measure,
              [&](optrush::Run& run) { trained_steps.push_back(run.step()); });
  });
  EXPECT_THAT(error_of([&] { trained.train(); }), HasSubstr("token 7 of the corpus is torn"));
  EXPECT_THAT(trained_steps, ElementsAre(0, 1));
}

/// The batches of a step after the last one are still made, and the run waits for them.
TEST(Prefetch, RunWaitsForRequestedBatchesAtItsEnd) {
  RunSpec spec = nano_spec({kPrefetch});
  std::atomic<int64_t> under_way{0};
  Trained trained(spec, on_data([&](const Data& data, int64_t step) {
                    ++under_way;
                    if (step == 3) std::this_thread::sleep_for(std::chrono::milliseconds(50));
                    auto batches = data(step);
                    --under_way;
                    return batches;
                  }));
  trained.train();
  EXPECT_EQ(under_way, 0);
}

/// The peak of a run. With `awaits_the_next`, each step begins after the next step's batches are made.
int64_t peak_of_steps(const RunSpec& spec, bool awaits_the_next) {
  install_cpu_memory_tracking();
  const int64_t before = cpu_allocated();
  std::atomic<int64_t> made{-1};
  Trained trained(spec, [&](Recipe& recipe) {
    on_data([&](const Data& data, int64_t step) {
      auto batches = data(step);
      made = step;
      made.notify_all();
      return batches;
    })(recipe);
    recipe.schedule.wrap(Phase::measure, [&](auto inner) {
      return [&, inner](Step& step) {
        for (int64_t last = made; awaits_the_next && last <= trained.session().step(); last = made)
          made.wait(last);
        inner(step);
      };
    });
  });
  return trained.train()["memory"]["peak_allocated"].get<int64_t>() - before;
}

TEST(Prefetch, HoldsTheBatchesOfOneMoreStep) {
  RunSpec spec = nano_spec();
  const int64_t plain = peak_of_steps(spec, false);
  spec.plugins = {kPrefetch};
  const int64_t ahead = peak_of_steps(spec, true);
  const auto predicted = forecast(spec, at::kCPU);
  ASSERT_TRUE(predicted);
  EXPECT_EQ(predicted->memory.peak, static_cast<double>(ahead));
  const int64_t rows = spec.train.micro_batch, length = spec.train.seq_len;
  EXPECT_EQ(ahead - plain, int64_t{8} * (2 * rows * length + length)) << "tokens, labels, positions";
}
}  // namespace
}  // namespace optrush::testing
