#include "two_rates.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace optrush::lora {
namespace {
class TwoRates final : public Optimizer {
 public:
  TwoRates(double ratio, std::unique_ptr<Optimizer> slow, std::unique_ptr<Optimizer> fast)
      : ratio_(ratio), slow_(std::move(slow)), fast_(std::move(fast)) {}

  void step(std::span<Shard> shards, const Update& update) override {
    Update faster = update;
    faster.lr *= ratio_;
    if (update.lr_tensor.defined()) faster.lr_tensor = update.lr_tensor * ratio_;
    of_each(shards, [&](Optimizer& optimizer, std::span<Shard> group) {
      optimizer.step(group, &optimizer == fast_.get() ? faster : update);
    });
  }

  std::string why_not_in_parts() const override {
    const std::string why = slow_->why_not_in_parts();
    return why.empty() ? fast_->why_not_in_parts() : why;
  }

  std::vector<OptimizerState> state(const Shard& shard) override {
    return (is_fast(shard) ? fast_ : slow_)->state(shard);
  }

  void evaluates(std::span<Shard> shards, bool does) override {
    of_each(shards, [&](Optimizer& optimizer, std::span<Shard> group) { optimizer.evaluates(group, does); });
  }

 private:
  template <class Body>
  void of_each(std::span<Shard> shards, const Body& body) {
    std::vector<Shard> groups[2];
    for (const Shard& shard : shards) groups[is_fast(shard) ? 1 : 0].push_back(shard);
    if (!groups[0].empty()) body(*slow_, groups[0]);
    if (!groups[1].empty()) body(*fast_, groups[1]);
  }

  double ratio_;
  std::unique_ptr<Optimizer> slow_, fast_;
};
}  // namespace

bool is_fast(const Shard& shard) {
  return std::ranges::any_of(shard.segments, [](const Segment& segment) {
    return segment.param->shape.size() == 1 || segment.param->name.ends_with(".lora_B.weight");
  });
}

std::unique_ptr<Optimizer> two_rates(
    double ratio, std::span<Shard> shards,
    const std::function<std::unique_ptr<Optimizer>(std::span<Shard>)>& make) {
  std::vector<Shard> slow, fast;
  for (const Shard& shard : shards) (is_fast(shard) ? fast : slow).push_back(shard);
  auto of_slow = make(slow);
  return std::make_unique<TwoRates>(ratio, std::move(of_slow), make(fast));
}
}  // namespace optrush::lora
