#include "tied_ends.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "optrush/advanced/data_parallel.h"
#include "optrush/param.h"

namespace optrush::pipeline_parallel {
namespace {
class TiedEnds final : public DataParallel {
 public:
  TiedEnds(std::unique_ptr<DataParallel> inner, std::vector<TiedParam> tied, Run& run)
      : inner_(std::move(inner)), tied_(std::move(tied)), run_(run) {
    inner_->on_ready([this](Shard& shard) {
      if (heard() && !is_tied(shard)) ready(shard);
    });
  }

  void store(Param& param, Tensors values) override { inner_->store(param, std::move(values)); }
  void before_forward() override { inner_->before_forward(); }
  void before_backward(const Tensor& out, bool last) override { inner_->before_backward(out, last); }
  void zero_gradients() override { inner_->zero_gradients(); }
  std::span<Shard> shards() override { return inner_->shards(); }

  void finish() override {
    inner_->finish();
    const at::NoGradGuard no_grad;
    for (Shard& shard : shards()) {
      if (!is_tied(shard) || !used_at_an_end(shard)) continue;
      for (const Segment& segment : shard.segments)
        if (const TiedParam* tied = found(segment.param)) add_other_end(shard, segment, *tied);
      if (heard()) ready(shard);
    }
    told_ = true;
  }

 private:
  const TiedParam* found(const Param* param) const {
    const auto at = std::ranges::find(tied_, param, &TiedParam::param);
    return at == tied_.end() ? nullptr : &*at;
  }
  bool is_tied(const Shard& shard) const {
    return std::ranges::any_of(shard.segments,
                               [&](const Segment& segment) { return found(segment.param) != nullptr; });
  }

  /// No gradient if neither end used the parameter in this step. Each host knows its own use only.
  bool used_at_an_end(const Shard& shard) {
    bool used = shard.grad.defined();
    for (const Segment& segment : shard.segments) {
      const TiedParam* tied = found(segment.param);
      if (tied == nullptr || segment.layout.numel() == 0) continue;
      const Tensor here = at::full({1}, used ? 1 : 0, at::kByte), there = at::zeros_like(here);
      Group& ranks = run_.mesh().group({"pp"});
      const int64_t other = ranks.rank() == tied->first ? tied->last : tied->first;
      ranks.exchange(there, other, here, other).wait();
      used = used || there.item<uint8_t>() != 0;
      if (!told_) run_.expect_traffic("send", {"pp"}, 1);
    }
    return used;
  }

  /// A sum of two has the same bits on both ends, so their copies stay equal.
  void add_other_end(Shard& shard, const Segment& segment, const TiedParam& tied) {
    if (segment.layout.numel() == 0) return;
    if (!shard.grad.defined()) shard.grad = at::zeros_like(shard.data);
    shard.grad = shard.grad.contiguous();
    Group& ranks = run_.mesh().group({"pp"});
    const int64_t other = ranks.rank() == tied.first ? tied.last : tied.first;
    const Tensor mine = Shard::part(shard.grad, segment);
    const Tensor theirs = at::empty_like(mine);
    ranks.exchange(theirs, other, mine, other).wait();
    mine.add_(theirs);
    if (!told_) run_.expect_traffic("send", {"pp"}, static_cast<double>(mine.nbytes()));
  }

  std::unique_ptr<DataParallel> inner_;
  std::vector<TiedParam> tied_;
  Run& run_;
  bool told_ = false;  ///< the expected traffic was reported
};
}  // namespace

std::unique_ptr<DataParallel> with_tied_ends(std::unique_ptr<DataParallel> inner, std::vector<TiedParam> tied,
                                             Run& run) {
  const int64_t rank = run.mesh().rank("pp");
  std::erase_if(tied, [&](const TiedParam& each) {
    return !each.param->trainable || (rank != each.first && rank != each.last);
  });
  if (tied.empty()) return inner;
  return std::make_unique<TiedEnds>(std::move(inner), std::move(tied), run);
}
}  // namespace optrush::pipeline_parallel
