#include "budget.h"

#include <ATen/Functions.h>
#include <ATen/record_function.h>

#include <algorithm>

#include "optrush/advanced/saved_tensors.h"
#include "optrush/error.h"
#include "origin.h"

namespace optrush::checkpointing {
namespace {
int64_t bytes_of(const Tensor& tensor) { return static_cast<int64_t>(tensor.storage().nbytes()); }

double flops_of(const std::string& slot, const Tensors& inputs, const Tensors& outputs) {
  const auto elements = [](const Tensor& tensor) { return static_cast<double>(tensor.numel()); };
  if (slot == "linear") return 2 * elements(inputs.at(0)) * static_cast<double>(outputs.at(0).size(-1));
  if (slot == "attention") return 4 * elements(inputs.at(0)) * static_cast<double>(inputs.at(1).size(-2));
  return elements(outputs.at(0));
}

/// Records every storage of one forward, by the outermost operator that made it.
class Probe final : public Watcher {
 public:
  Probe(const Tensor& x, const Batch& batch, const Tensors& resident) {
    resident_.insert(storage_of(x));
    for (const Tensor& tensor : batch.tensors())
      if (tensor.defined()) resident_.insert(storage_of(tensor));
    for (const Tensor& tensor : resident) resident_.insert(storage_of(tensor));
    cost_.input = bytes_of(x);
    cost_.plain = cost_.input;
  }

  Tensors call(const std::string& slot, const Tensors& inputs, const std::function<Tensors()>& run) override {
    const int64_t number = calls_++;
    if (inputs_ != nullptr) return run();
    cost_.operators.push_back({slot, number, 0, 0});
    inputs_ = &inputs;
    Tensors outputs = run();
    inputs_ = nullptr;
    auto& op = cost_.operators.back();
    op.flops = flops_of(slot, inputs, outputs);
    outputs_only_.push_back(0);
    for (const Tensor& out : outputs)
      if (out.defined() && own(out)) outputs_only_.back() += bytes_of(out), op.bytes += bytes_of(out);
    saved_before_end_.push_back(saved_);
    return outputs;
  }

  void save(const Tensor& tensor) {
    if (storage_of(tensor) == nullptr || resident_.contains(storage_of(tensor))) return;
    ++saved_;
    const bool fresh = own(tensor);
    if (plain_.insert(storage_of(tensor)).second) cost_.plain += bytes_of(tensor);
    if (fresh && inputs_ != nullptr && !Origin::find(tensor, *inputs_))
      cost_.operators.back().bytes += bytes_of(tensor);
  }

  BlockCost finish() {
    // The output of an operator after which nothing is saved is not needed to run the others again.
    for (size_t i = 0; i < cost_.operators.size(); ++i)
      if (saved_before_end_[i] == saved_) cost_.operators[i].bytes -= outputs_only_[i];
    return std::move(cost_);
  }

 private:
  /// Whether the storage is new. It is kept alive, so that no other storage gets its address.
  bool own(const Tensor& tensor) {
    if (resident_.contains(storage_of(tensor)) || !seen_.insert(storage_of(tensor)).second) return false;
    held_.push_back(tensor.detach());
    return true;
  }

  BlockCost cost_;
  std::set<const void*> resident_, seen_, plain_;
  Tensors held_;
  const Tensors* inputs_ = nullptr;
  std::vector<int64_t> outputs_only_, saved_before_end_;
  int64_t calls_ = 0, saved_ = 0;
};
}  // namespace

BlockCost cost_of(const UnitFunction& forward, const Tensor& x, const Batch& batch, const Tensors& resident,
                  Operators::Block& block) {
  const at::DisableRecordFunctionGuard uncounted;
  const RandomState random(x.device());
  const RandomState::Rewound afterwards(random);
  Probe probe(x, batch, resident);
  {
    const Operators::Watched watched(block, probe);
    const SavedTensorScope scope([&](const Tensor& tensor) -> PackedTensor {
      probe.save(tensor);
      return {{},
              [](const Tensor&) -> Tensor { throw Error("the autograd graph of a probe has no backward"); }};
    });
    forward(x, batch);
  }
  return probe.finish();
}

void agree_on(BlockCost& cost, const Mesh& mesh) {
  Mesh::Names dims = mesh.all();
  const Mesh::Names layers = mesh.layers();
  std::erase_if(dims, [&](const auto& dim) { return std::ranges::find(layers, dim) != layers.end(); });
  if (mesh.size(dims) == 1) return;
  std::vector<double> numbers = {static_cast<double>(cost.input), static_cast<double>(cost.plain)};
  for (const auto& op : cost.operators)
    numbers.insert(numbers.end(), {static_cast<double>(op.bytes), op.flops});
  const Tensor all = at::tensor(numbers, at::kDouble);
  mesh.group(dims).all_reduce_max(all).wait();
  const double* next = all.const_data_ptr<double>();
  cost.input = static_cast<int64_t>(*next++);
  cost.plain = static_cast<int64_t>(*next++);
  for (auto& op : cost.operators) {
    op.bytes = static_cast<int64_t>(*next++);
    op.flops = *next++;
  }
}

BudgetPlan spend(double budget, const BlockCost& cost, int64_t blocks) {
  const int64_t least = cost.input * blocks, most = cost.plain * blocks;
  if (budget > 1 && budget < static_cast<double>(least))
    throw Error(ErrorCode::invalid_value,
                "a budget of " + std::to_string(static_cast<int64_t>(budget)) + " bytes is less than the " +
                    std::to_string(least) + " bytes of the blocks' inputs, which are always saved",
                "give at least this number, or a fraction of the " + std::to_string(most) +
                    " bytes that the blocks save without recomputation");
  const auto limit = static_cast<int64_t>(budget > 1 ? budget : budget * static_cast<double>(most));

  auto operators = cost.operators;
  std::ranges::stable_sort(operators, [](const auto& a, const auto& b) {
    return a.flops * static_cast<double>(b.bytes) > b.flops * static_cast<double>(a.bytes);
  });
  BudgetPlan plan{.blocks = std::vector<BlockChoice>(static_cast<size_t>(blocks)), .bytes = least};
  std::vector<int64_t> kept(plan.blocks.size(), cost.input);
  for (const auto& op : operators)
    for (size_t i = 0; i < kept.size() && plan.bytes + op.bytes <= limit; ++i) {
      plan.blocks[i].kept.insert(op.number);
      kept[i] += op.bytes;
      plan.bytes += op.bytes;
    }
  // The remaining tensors of a block were saved by no operator. A block that keeps them too is the plain
  // block.
  for (size_t i = 0; i < kept.size() && plan.bytes + cost.plain - kept[i] <= limit; ++i) {
    plan.blocks[i].plain = true;
    plan.bytes += cost.plain - kept[i];
  }
  return plan;
}
}  // namespace optrush::checkpointing
