#include "rounding_optimizer.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>

#include <unordered_map>
#include <utility>

#include "round_by_chance.h"

namespace optrush::stochastic_rounding {
namespace {
/// The fp32 form of a bf16 tensor: one tensor object for the whole run, with memory while it is needed.
class Widened {
 public:
  explicit Widened(const Tensor& narrow) : wide_(narrow.to(at::kFloat).contiguous()) {}
  const Tensor& tensor() const { return wide_; }
  void fill(const Tensor& narrow) const {
    set_memory(wide_.nbytes());
    wide_.copy_(narrow);
  }
  void free() const { set_memory(0); }

 private:
  void set_memory(size_t bytes) const {
    const c10::OptionalDeviceGuard guard(wide_.is_cpu() ? std::nullopt : std::optional(wide_.device()));
    c10::StorageImpl& storage = *wide_.storage().unsafeGetStorageImpl();
    storage.set_data_ptr_noswap(storage.allocator()->allocate(bytes));
    storage.set_nbytes(bytes);
  }
  Tensor wide_;
};

class Rounding final : public Optimizer {
 public:
  Rounding(Run& run, std::span<Shard> shards, const MakeOptimizer& inner) : run_(run) {
    const at::NoGradGuard no_grad;
    std::vector<Shard> all;
    for (const Shard& shard : shards) {
      if (shard.data.scalar_type() == at::kBFloat16) widened_.emplace(shard.key(), shard.data);
      all.push_back(as_inner_sees(shard));
    }
    inner_ = inner(run, all);
    for (const auto& [key, widened] : widened_) widened.free();
  }

  std::string why_not_in_parts() const override { return inner_->why_not_in_parts(); }

  void step(std::span<Shard> shards, const Update& update) override {
    const at::NoGradGuard no_grad;
    if (!inner_->why_not_in_parts().empty()) return step_together(shards, update);
    for (size_t i = 0; i < shards.size(); ++i) step_together(shards.subspan(i, 1), update);
  }

  std::vector<OptimizerState> state(const Shard& shard) override {
    return inner_->state(as_inner_sees(shard));
  }

  /// Evaluated parameters are rounded to nearest. The parameters of training are already bf16 values.
  void evaluates(std::span<Shard> shards, bool does) override {
    const at::NoGradGuard no_grad;
    for (const Shard& shard : shards) {
      Shard seen = as_inner_sees(shard);
      const Widened* widened = fill(shard);
      inner_->evaluates({&seen, 1}, does);
      if (widened == nullptr) continue;
      shard.data.copy_(widened->tensor());
      widened->free();
    }
  }

 private:
  const Widened* fill(const Shard& shard) const {
    const auto found = widened_.find(shard.key());
    if (found == widened_.end()) return nullptr;
    found->second.fill(shard.data);
    return &found->second;
  }

  Shard as_inner_sees(const Shard& shard) const {
    Shard seen = shard;
    if (const auto found = widened_.find(shard.key()); found != widened_.end()) {
      seen.data = found->second.tensor();
      if (seen.grad.defined()) seen.grad = seen.grad.to(at::kFloat);
    }
    return seen;
  }

  void step_together(std::span<Shard> shards, const Update& update) const {
    std::vector<Shard> seen;
    std::vector<const Widened*> widened;
    for (const Shard& shard : shards) {
      seen.push_back(as_inner_sees(shard));
      widened.push_back(shard.grad.defined() ? fill(shard) : nullptr);
    }
    inner_->step(seen, update);
    for (size_t i = 0; i < shards.size(); ++i) {
      if (widened[i] == nullptr) continue;
      for (const Segment& segment : shards[i].segments)
        round_by_chance(Shard::part(widened[i]->tensor(), segment), Shard::part(shards[i].data, segment),
                        segment, key_of(run_.spec().train.seed, run_.step(), segment.param->name));
      widened[i]->free();
    }
  }

  Run& run_;
  std::unordered_map<const void*, Widened> widened_;
  std::unique_ptr<Optimizer> inner_;
};
}  // namespace

std::unique_ptr<Optimizer> make_optimizer(Run& run, std::span<Shard> shards, const MakeOptimizer& inner) {
  return std::make_unique<Rounding>(run, shards, inner);
}
}  // namespace optrush::stochastic_rounding
