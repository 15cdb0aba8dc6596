#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <unordered_set>

#include "base/contains.h"
#include "base/suggest.h"
#include "optrush/advanced/data_parallel.h"
#include "optrush/error.h"
#include "optrush/mesh.h"
#include "optrush/param.h"
#include "optrush/slot.h"
#include "optrush/unit.h"

namespace optrush {
namespace {
/// The unit that gathers this tensor, if it has a shape but no bytes at present.
std::optional<std::string> gathered_elsewhere(const Tensor& tensor) {
  if (!tensor.defined() || tensor.numel() == 0 || !tensor.has_storage()) return std::nullopt;
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  return storage->nbytes() == 0 ? storage->get_extra_meta().custom_data_ptr_error_msg_ : std::nullopt;
}

void check_is_here(const Param& param) {
  auto unit = gathered_elsewhere(param.leaf);
  for (const Tensor& stored : param.stored)
    if (!unit) unit = gathered_elsewhere(stored);
  if (!unit) return;
  throw Error(ErrorCode::invalid_plugin,
              "the value of '" + param.name + "' was read outside of its unit '" + *unit +
                  "': it is gathered for that unit alone, and freed after it",
              "read it in a wrap of the unit or of one of its operators; between steps Shard::data has this "
              "rank's elements");
}

Mesh::Names without(Mesh::Names dims, const Mesh::Names& others) {
  std::erase_if(dims, [&](const auto& dim) { return contains(others, dim); });
  return dims;
}

class Listener final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit Listener(std::function<void(const Tensor&)> added) : added_(std::move(added)) {}
  void operator()(const Tensor& leaf) override { added_(leaf); }

 private:
  std::function<void(const Tensor&)> added_;
};
}  // namespace

const Tensor& ComputeCopy::of(const Tensor& leaf, at::ScalarType type) {
  const bool fresh =
      copy_.defined() && copy_.scalar_type() == type && leaf_.is_same(leaf) && version_ == leaf._version();
  if (fresh) return copy_;
  // Under checkpointing, the forward runs without gradients and its recomputation with gradients.
  const at::AutoGradMode with_gradients(true);
  copy_ = leaf.to(type);
  leaf_ = leaf;
  version_ = leaf._version();
  bytes_ = static_cast<int64_t>(copy_.nbytes());
  return copy_;
}

Tensor Param::value() const {
  check_is_here(*this);
  return codec ? codec->decode(stored, layout.box_shape()) : leaf;
}

Tensor Param::compute_value() const {
  // A decoded value is not cast once per step: the copy would take the memory that the codec saves.
  if (codec || !compute_dtype || leaf.scalar_type() == *compute_dtype) return value();
  check_is_here(*this);
  return tracing() ? leaf.to(*compute_dtype) : compute_copy.of(leaf, *compute_dtype);
}

int64_t Param::numel() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Mesh::Names Param::cut_over() const { return without(sharded_over, absent_over); }
Mesh::Names Param::summed_over(const Mesh& mesh) const { return without(mesh.data(), absent_over); }

Param& Params::add(Param param) {
  if (contains(param.name)) throw Error(ErrorCode::conflict, "two parameters are named '" + param.name + "'");
  if (param.layout.shape() != param.shape) param.layout = Layout(param.shape);
  Param& added = params_.emplace_back(std::move(param));
  kept_.push_back(&added);
  return added;
}

Param& Params::at(std::string_view name) {
  for (auto& param : params_)
    if (param.name == name) return param;
  std::vector<std::string> names;
  for (const auto& param : params_) names.push_back(param.name);
  throw Error(ErrorCode::unknown_name, "no parameter is named '" + std::string(name) + "'",
              did_you_mean(name, names));
}

bool Params::contains(std::string_view name) const {
  return std::any_of(params_.begin(), params_.end(), [&](const Param& p) { return p.name == name; });
}

std::vector<Param*> Params::all() { return kept_; }

std::vector<const Param*> Params::all() const { return {kept_.begin(), kept_.end()}; }

Param* Module::bias() const {
  const auto found = std::ranges::find(params, path + ".bias", &Param::name);
  return found == params.end() ? nullptr : *found;
}

std::vector<Param*> Unit::params() const {
  std::vector<Param*> all;
  std::unordered_set<const Param*> taken;
  const auto take = [&](const std::vector<Param*>& params) {
    for (Param* param : params)
      if (taken.insert(param).second) all.push_back(param);
  };
  for (const auto& module : modules) take(module.params);
  for (const auto& child : children) take(child->params());
  return all;
}

void after_accumulation(const Tensor& leaf, std::function<void(const Tensor& leaf)> added) {
  torch::autograd::impl::set_post_acc_grad_hooks(leaf, std::make_unique<Listener>(std::move(added)));
}

void keep_whole(Param& param, Tensors values, std::vector<Shard>& shards) {
  if (param.codec) {
    param.stored = std::move(values);
    return;
  }
  param.leaf = values.at(0).detach().requires_grad_(param.trainable);
  if (!param.trainable) return;
  shards.push_back({.data = param.leaf.detach(),
                    .grad = {},
                    .decay = param.decay,
                    .segments = {{&param, param.layout, 0}},
                    .sharded_over = param.sharded_over});
}
}  // namespace optrush
