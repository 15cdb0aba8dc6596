#include "replicated.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <list>
#include <vector>

#include "../used_anywhere.h"
#include "buckets.h"
#include "optrush/advanced/data_parallel.h"
#include "optrush/error.h"
#include "optrush/forecast.h"

namespace optrush::ddp {
namespace {
class Replicated final : public DataParallel {
 public:
  Replicated(Run& run, const BucketOptions& options) : run_(run), options_(options) {}

  void store(Param& param, Tensors values) override { keep_whole(param, std::move(values), shards_); }

  void before_forward() override {
    if (sums_.empty() && !shards_.empty()) make_buckets();
  }

  void before_backward(const Tensor&, bool last) override {
    last_ = last;
    if (last && !sums_.empty()) begin();  // a rank may have only frozen parameters
  }

  void finish() override {
    if (shards_.empty()) return;
    begin();
    const std::vector<size_t> others = not_sent();
    for (Sums& sums : sums_) {
      std::vector<size_t> here;
      for (const size_t i : others)
        if (local_[i].sums == &sums) here.push_back(local_[i].number);
      sums.buckets->complete(here);
    }
    // After all buckets, because ranks differ in the number of buckets that the backward sent.
    agree_on_used();
    for (size_t i = 0; i < shards_.size(); ++i) finish(i);
    for (Local& each : local_) {
      each.expected = std::max(each.expected, each.added);
      each = {.sums = each.sums, .number = each.number, .expected = each.expected};
    }
    arrived_.clear();
    begun_ = false;
  }

  void zero_gradients() override {
    for (Shard& shard : shards_) {
      shard.grad.reset();
      leaf(shard).mutable_grad().reset();
    }
    for (Sums& sums : sums_) sums.buckets->settle();
  }
  std::span<Shard> shards() override { return shards_; }

 private:
  /// The gradients that are summed over the same ranks.
  struct Sums {
    Mesh::Names dims;
    std::vector<size_t> shards;
    std::unique_ptr<Buckets> buckets;
  };

  /// This rank's part of a shard's gradient, in the present step.
  struct Local {
    Sums* sums = nullptr;
    size_t number = 0;  ///< of the gradient in `sums`
    /// How often autograd adds to the leaf in the last backward of a step. The number is not known in
    /// advance, because a recomputation has a separate backward, so the first step counts, and sends when it
    /// has ended.
    int64_t expected = 0;
    int64_t added = 0;
    bool any = false;     ///< in any micro-batch
    bool unused = false;  ///< on every rank
    bool sent = false, told = false;
  };

  void make_buckets() {
    const Mesh& mesh = run_.mesh();
    local_.resize(shards_.size());
    for (size_t i = 0; i < shards_.size(); ++i) {
      shards_[i].grad_in_buffer = true;
      const Mesh::Names dims = param(shards_[i]).summed_over(mesh);
      auto sums = std::ranges::find(sums_, dims, &Sums::dims);
      if (sums == sums_.end()) sums = sums_.insert(sums, {dims, {}, nullptr});
      sums->shards.push_back(i);
      after_accumulation(leaf(shards_[i]), [this, i](const Tensor&) { added_to(i); });
    }
    for (Sums& sums : sums_) make_buckets(sums);
  }

  void make_buckets(Sums& sums) {
    Group& group = run_.mesh().group(sums.dims);
    std::vector<GradientForm> forms;
    for (const size_t i : sums.shards) {
      local_[i].sums = &sums;
      local_[i].number = forms.size();
      const Tensor& leaf = this->leaf(shards_[i]);
      forms.push_back(
          {leaf.sizes().vec(),
           leaf.options().dtype(leaf.grad_dtype().value_or(leaf.scalar_type())).requires_grad(std::nullopt)});
    }
    const auto summed = [this, &sums](size_t number) { this->summed(sums.shards[number]); };
    const bool connected = group.size() > 1 && !is_forecast(run_.device());
    sums.buckets = connected ? make_reducer_buckets(forms, group, options_, summed)
                             : make_planned_buckets(forms, group, options_, summed);
    if (group.size() == 1) return;
    const BucketSums wire(group, options_.wire, {});
    double bytes = 0;
    for (const GradientForm& form : forms)
      bytes +=
          static_cast<double>(wire.wire_bytes(form.numel(), c10::typeMetaToScalarType(form.options.dtype())));
    const auto ranks = static_cast<double>(group.size());
    run_.expect_traffic("all_reduce", sums.dims, 2 * (ranks - 1) / ranks * bytes);
  }

  void begin() {
    if (begun_) return;
    begun_ = true;
    for (Sums& sums : sums_) sums.buckets->begin();
  }

  /// Autograd added to a leaf. Its gradient moves into the bucket at once: there is one copy of it, and
  /// further micro-batches add to it there.
  void added_to(size_t i) {
    const at::NoGradGuard no_grad;
    Local& here = local_[i];
    const Tensor view = this->view(i);
    Tensor& gradient = leaf(shards_[i]).mutable_grad();
    if (!gradient.is_alias_of(view)) {
      view.copy_(gradient);
      gradient = view;
    }
    here.any = true;
    if (!last_) return;
    if (here.sent)
      throw Error(
          "ddp: the gradient of '" + param(shards_[i]).name +
              "' changed after it was sent: the backward added to it once more than in the previous steps",
          "remove the plugin that changes the autograd graph between steps, or report this error");
    if (++here.added == 1) arrived_.push_back(i);
    // With several chunks, the last backward of one chunk may not be the last one that adds.
    if (here.added != here.expected || run_.chunks().size() > 1) return;
    here.sent = true;
    here.sums->buckets->ready(here.number);
  }

  /// The gradients that the backward did not send, in the order in which they arrived. Parameters without a
  /// gradient are zeros in the sum.
  std::vector<size_t> not_sent() {
    std::vector<size_t> others;
    for (const size_t i : arrived_)
      if (!local_[i].sent) others.push_back(i);
    for (size_t i = shards_.size(); i-- > 0;) {
      if (local_[i].sent || local_[i].added > 0) continue;
      if (!local_[i].any) view(i).zero_();
      others.push_back(i);
    }
    for (const size_t i : others) local_[i].sent = true;
    return others;
  }

  /// A parameter that no rank used in this step has no gradient, as in one process: the optimizer leaves it
  /// alone. If another rank used it, this rank adds zeros to the sum.
  void agree_on_used() {
    std::vector<char> used;
    std::vector<const Param*> params;
    for (size_t i = 0; i < local_.size(); ++i) {
      used.push_back(local_[i].any ? 1 : 0);
      params.push_back(&param(shards_[i]));
    }
    used = used_anywhere(run_, params, std::move(used));
    for (size_t i = 0; i < local_.size(); ++i) local_[i].unused = used[i] == 0;
  }

  /// Called when the sum over the data ranks is complete.
  void summed(size_t i) {
    // If this rank did not use a parameter, no other rank may have used it.
    if (!heard() || !local_[i].any || sums_further(shards_[i])) return;
    shards_[i].grad = view(i);
    local_[i].told = true;
    ready(shards_[i]);
  }

  void finish(size_t i) {
    Shard& shard = shards_[i];
    if (local_[i].told) return;
    if (local_[i].unused) return;
    shard.grad = view(i);
    if (sums_further(shard)) run_.mesh().group(param(shard).partial_over).all_reduce(shard.grad).wait();
    if (heard()) ready(shard);
  }

  bool sums_further(Shard& shard) const { return run_.mesh().size(param(shard).partial_over) > 1; }
  Tensor view(size_t i) const { return local_[i].sums->buckets->view(local_[i].number); }
  static Param& param(Shard& shard) { return *shard.segments.front().param; }
  static Tensor& leaf(Shard& shard) { return param(shard).leaf; }

  Run& run_;
  BucketOptions options_;
  std::vector<Shard> shards_;
  std::list<Sums> sums_;         ///< addresses stay
  std::vector<Local> local_;     ///< of each shard
  std::vector<size_t> arrived_;  ///< shards in the order in which the last backward added to them
  bool last_ = false, begun_ = false;
};
}  // namespace

std::unique_ptr<DataParallel> make_replicated(Run& run, const BucketOptions& options) {
  return std::make_unique<Replicated>(run, options);
}
}  // namespace optrush::ddp
