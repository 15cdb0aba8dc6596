#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <utility>
#include <vector>

#include "base/contains.h"
#include "optrush/advanced/data_parallel.h"
#include "optrush/error.h"
#include "optrush/mesh.h"
#include "train/plain.h"

namespace optrush {
namespace {
class SingleDevice final : public DataParallel {
 public:
  explicit SingleDevice(const Mesh& mesh) : mesh_(mesh) {}

  void store(Param& param, Tensors values) override { keep_whole(param, std::move(values), shards_); }

  void before_backward(const Tensor&, bool last) override {
    last_ = last;
    if (heard() && accumulated_.empty()) listen();
  }

  void finish() override {
    last_ = false;  // a compiler may run a backward between steps, which must not count
    std::vector<uint8_t> used;
    for (size_t i = 0; i < shards_.size(); ++i)
      used.push_back(was_notified(i) || leaf(shards_[i]).grad().defined() ? 1 : 0);
    agree_on_used(used);
    for (size_t i = 0; i < shards_.size(); ++i) {
      Shard& shard = shards_[i];
      shard.grad = leaf(shard).grad();
      if (used[i] == 0 || was_notified(i)) continue;
      complete(shard);
      if (heard()) ready(shard);
    }
    for (Accumulated& each : accumulated_) {
      each.expected = each.seen;
      each.seen = 0;
      each.notified = false;
    }
  }

  void zero_gradients() override {
    for (Shard& shard : shards_) {
      shard.grad.reset();
      leaf(shard).mutable_grad().reset();
    }
  }
  std::span<Shard> shards() override { return shards_; }

 private:
  /// Counts how often autograd adds to a leaf in the last backward of a step. The number is not known in
  /// advance, because each recomputation has a separate backward, so the first step counts. Until then, one
  /// process expects one addition, so that listeners that free gradients work from the first step on; several
  /// ranks may run parts of a backward later.
  struct Accumulated {
    int64_t seen = 0, expected = 0;
    bool notified = false;
  };
  void listen() {
    accumulated_.resize(shards_.size(), {.expected = mesh_.size(mesh_.all()) == 1 ? 1 : 0});
    for (size_t i = 0; i < shards_.size(); ++i)
      after_accumulation(leaf(shards_[i]), [this, i](const Tensor&) { added_to(i); });
  }
  void added_to(size_t i) {
    Accumulated& here = accumulated_[i];
    Shard& shard = shards_[i];
    if (here.notified)
      throw Error(
          ErrorCode::invalid_plugin,
          "the gradient of '" + param(shard).name +
              "' changed after it was final: the backward added to it once more than expected",
          "remove the plugin that uses gradients in the backward, or the one that splits the backward");
    if (!last_ || ++here.seen != here.expected || !param(shard).partial_over.empty()) return;
    here.notified = true;
    shard.grad = leaf(shard).grad();
    ready(shard);
  }

  static Param& param(Shard& shard) { return *shard.segments.front().param; }
  static Tensor& leaf(Shard& shard) { return param(shard).leaf; }
  /// A parameter that some rank with the same layers used has a gradient on all of them.
  void agree_on_used(std::vector<uint8_t>& used) const {
    Mesh::Names dims = mesh_.all();
    const Mesh::Names layers = mesh_.layers();
    std::erase_if(dims, [&](const auto& dim) { return contains(layers, dim); });
    if (mesh_.size(dims) > 1 && !used.empty())
      mesh_.group(dims).all_reduce_max(at::from_blob(used.data(), {std::ssize(used)}, at::kByte)).wait();
  }

  bool was_notified(size_t i) const { return i < accumulated_.size() && accumulated_[i].notified; }

  /// If another rank used the parameter, this rank's gradient is zero.
  void complete(Shard& shard) {
    const at::NoGradGuard no_grad;
    if (!shard.grad.defined()) shard.grad = leaf(shard).mutable_grad() = at::zeros_like(shard.data);
    const auto& dims = param(shard).partial_over;
    if (mesh_.size(dims) > 1) mesh_.group(dims).all_reduce(shard.grad).wait();
  }

  const Mesh& mesh_;
  std::vector<Shard> shards_;
  std::vector<Accumulated> accumulated_;  ///< one per shard, if there is a listener
  bool last_ = false;
};
}  // namespace

std::unique_ptr<DataParallel> make_single_device(Run& run) {
  return std::make_unique<SingleDevice>(run.mesh());
}
}  // namespace optrush
