#include "random_training.h"

#include "support/error_of.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "spec/spec_json.h"

namespace optrush::testing {
PluginUse some_data_parallelism(Draws& draws) {
  if (draws.sometimes()) return {"ddp", Json::object()};
  return {"fsdp", {{"stage", draws.one_of<int>({1, 2, 3})}}};
}

void add_some_plugins(Draws& draws, std::vector<PluginUse>& plugins) {
  const auto maybe = [&](const char* name, Json options = Json::object()) {
    if (draws.sometimes()) plugins.push_back({name, std::move(options)});
  };
  maybe("lora", {{"rank", 3}, {"target_modules", {"q_proj", "v_proj", "o_proj", "down_proj"}}});
  maybe("clip_grad_norm", {{"max_norm", 0.3}});
  maybe("fused_adamw");
  maybe("fused_kernels");
  maybe("flash_attention");
  maybe("swiglu_recompute");
  maybe("fused_linear_cross_entropy", {{"chunk", draws.one_of<int>({0, 5})}});
  maybe("activation_checkpointing", {{"policy", draws.one_of<std::string>({"full", "every", "selective"})}});
}

void expect_equal_for_seeds(RankPool& pool, uint64_t seeds,
                            const std::function<RandomTraining(Draws&, uint64_t seed)>& draw) {
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Draws draws(seed);
    auto [spec, batch_ranks] = draw(draws, seed);
    spec.train.seed = seed + 1;
    const int64_t rounds = spec.train.accumulation * batch_ranks;
    spec.train.micro_batch = rounds < 3 ? 3 : draws.one_of<int64_t>({1, 2});
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + to_json(spec).dump());
    const RunSpec one = one_process_of(spec, batch_ranks);
    ASSERT_NO_THROW(expect_equal_training(pool, spec, one, 1e-9));
    if (::testing::Test::HasFailure()) return;
  }
}

std::string refusal_of(RankPool& pool, const RunSpec& spec) {
  return error_of([&] { train_on(pool, {.spec = spec}); });
}
}  // namespace optrush::testing
