#include "selective.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "optrush/error.h"
#include "optrush/scopes.h"

namespace optrush::checkpointing {
namespace {
PackedTensor as_it_is(const Tensor& tensor) {
  return {tensor, [](const Tensor& kept) { return kept; }};
}
}  // namespace

/// The first forward: keeps or drops each saved tensor.
class SelectiveCall::Recording final : public Watcher {
 public:
  Recording(SelectiveCall& call, const Keep& keep) : call_(call), keep_(keep) {}

  Tensors call(const std::string& slot, const Tensors& inputs, const std::function<Tensors()>& run) override {
    const int64_t number = calls_++;
    if (kept_ != nullptr || !keep_(slot, number)) return run();
    KeptCall& kept = call_.kept_[number];
    kept_ = &kept;
    inputs_ = &inputs;
    Tensors outputs = run();
    kept_ = nullptr;
    kept.random_after = call_.recomputation_.random().read();
    kept.calls_inside = calls_ - number - 1;
    kept.dropped_before_end = call_.dropped_count_;
    for (const Tensor& out : outputs) {
      auto& output = kept.outputs.emplace_back();
      if (!out.defined()) continue;
      output.emplace(KeptOutput{call_.hold(out), out.sizes().vec(), out.options().requires_grad(false),
                                out.requires_grad()});
    }
    return outputs;
  }

  PackedTensor pack(const Tensor& tensor) {
    if (call_.holding_ || call_.lives_anyway(tensor)) return as_it_is(tensor);
    auto origin = kept_ != nullptr ? Origin::find(tensor, *inputs_) : std::nullopt;
    if (kept_ != nullptr && !origin) return as_it_is(tensor);
    ++call_.dropped_count_;
    auto& list = kept_ != nullptr ? kept_->inputs : call_.dropped_;
    return call_.drop(list.emplace_back(Dropped{tensor.numel(), std::move(origin), {}, true}));
  }

 private:
  SelectiveCall& call_;
  const Keep& keep_;
  KeptCall* kept_ = nullptr;  ///< the kept operator that runs now
  const Tensors* inputs_ = nullptr;
  int64_t calls_ = 0;
};

/// The second forward: collects the dropped tensors.
class SelectiveCall::Replaying final : public Watcher {
 public:
  explicit Replaying(SelectiveCall& call) : call_(call) {}

  Tensors call(const std::string&, const Tensors& inputs, const std::function<Tensors()>& run) override {
    const int64_t number = calls_++;
    const auto found = call_.kept_.find(number);
    if (found == call_.kept_.end()) return run();
    KeptCall& kept = found->second;
    calls_ += kept.calls_inside;
    if (kept.random_after.defined()) call_.recomputation_.random().write(kept.random_after);
    for (Dropped& dropped : kept.inputs)
      if (dropped.wanted) dropped.value.emplace(call_.hold(inputs.at(dropped.origin->input())));
    Tensors outputs;
    for (const auto& output : kept.outputs) outputs.push_back(output ? hand_back(*output) : Tensor());
    return outputs;
  }

  PackedTensor pack(const Tensor& tensor) {
    if (call_.holding_ || call_.lives_anyway(tensor)) return as_it_is(tensor);
    if (packed_ == call_.dropped_.size() || call_.dropped_[packed_].elements != tensor.numel()) differs();
    Dropped& dropped = call_.dropped_[packed_++];
    if (dropped.wanted) dropped.value.emplace(call_.hold(tensor));
    return {{}, [](const Tensor&) -> Tensor {
              throw Error("the autograd graph of a recomputation has no backward");
            }};
  }

  void finish() const {
    if (packed_ != call_.dropped_.size()) differs();
  }

 private:
  static Tensor hand_back(const KeptOutput& output) {
    // Nothing is read of one without a value: all that was dropped has been collected before it.
    const Tensor value =
        output.value ? output.value->unpack().detach() : at::zeros({}, output.options).expand(output.sizes);
    return value.requires_grad_(output.requires_grad);
  }
  [[noreturn]] static void differs() {
    throw Error("a block saved different tensors in the recomputation than in the first forward",
                "use policy = \"full\", which recomputes whole blocks");
  }

  SelectiveCall& call_;
  int64_t calls_ = 0;
  size_t packed_ = 0;
};

SelectiveCall::SelectiveCall(std::shared_ptr<const UnitFunction> forward, const Tensor& x, Batch batch,
                             const Scopes& scopes, Operators::Block& block)
    : forward_(std::move(forward)),
      batch_(std::move(batch)),
      block_(block),
      recomputation_(scopes, x.device()),
      x_(x.detach(), /*is_output=*/false),
      x_requires_grad_(x.requires_grad()),
      x_storage_(storage_of(x)) {}

bool SelectiveCall::lives_anyway(const Tensor& tensor) const {
  const void* storage = storage_of(tensor);
  const auto same = [&](const Tensor& other) { return other.defined() && storage_of(other) == storage; };
  return storage == nullptr || storage == x_storage_ || std::ranges::any_of(batch_.tensors(), same);
}

SelectiveCall::Saved SelectiveCall::hold(const Tensor& tensor) {
  holding_ = true;
  Saved saved(tensor.detach(), /*is_output=*/false);
  holding_ = false;
  return saved;
}

PackedTensor SelectiveCall::drop(Dropped& dropped) {
  const std::shared_ptr<Dropped> held = {&dropped, [call = shared_from_this()](Dropped* released) {
                                           released->wanted = false;
                                           released->value.reset();
                                         }};
  return {{}, [this, held](const Tensor&) {
            if (!held->value) replay();
            const Tensor value = held->value->unpack();
            return held->origin ? held->origin->derive(value) : value;
          }};
}

Tensor SelectiveCall::run(const Tensor& x, const Keep& keep) {
  Recording recording(*this, keep);
  const Tensor out = recomputation_.first([&] {
    const Operators::Watched watched(block_, recording);
    const SavedTensorScope scope([&](const Tensor& tensor) { return recording.pack(tensor); });
    return (*forward_)(x, batch_);
  });
  for (auto& [number, kept] : kept_) {
    if (!recomputation_.random().used()) kept.random_after.reset();
    if (kept.dropped_before_end < dropped_count_) continue;
    for (auto& output : kept.outputs)
      if (output) output->value.reset();
  }
  return out;
}

void SelectiveCall::replay() {
  Replaying replaying(*this);
  recomputation_.again([&] {
    const Operators::Watched watched(block_, replaying);
    const SavedTensorScope scope([&](const Tensor& tensor) { return replaying.pack(tensor); });
    const Tensor x = x_.unpack().detach().requires_grad_(x_requires_grad_);
    x_storage_ = storage_of(x);
    return (*forward_)(x, batch_);
  });
  replaying.finish();
}
}  // namespace optrush::checkpointing
