#include "optrush/advanced/saved_tensors.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>
#include <mutex>
#include <vector>

#include "recipe/run_recipe.h"

namespace optrush {
namespace {
using torch::autograd::SavedVariableHooks;
using Packs = std::vector<std::shared_ptr<const PackTensor>>;

/// The scopes of this thread. Like autocast and the gradient mode, they are thread-local.
Packs& packs_of_thread() {
  thread_local Packs packs;
  return packs;
}

/// The hooks of one saved tensor. Every scope packs it, innermost first, and unpacks it in reverse.
class PackedChain final : public SavedVariableHooks {
 public:
  explicit PackedChain(Packs innermost_last) : packs_(std::move(innermost_last)) {}

  void call_pack_hook(const Tensor& tensor) override {
    kept_ = tensor;
    for (auto pack = packs_.rbegin(); pack != packs_.rend() && kept_.defined(); ++pack) {
      auto [kept, unpack] = (**pack)(kept_);
      kept_ = std::move(kept);
      unpacks_.push_back(std::move(unpack));
    }
    packs_.clear();
    // An output of the operator would own the node that owns this object: a cycle.
    if (kept_.defined() && !kept_.is_leaf()) kept_ = kept_.detach();
  }
  Tensor call_unpack_hook() override {
    Tensor tensor = kept_;
    for (auto unpack = unpacks_.rbegin(); unpack != unpacks_.rend(); ++unpack) tensor = (*unpack)(tensor);
    return tensor;
  }

 private:
  Packs packs_;
  Tensor kept_;
  std::vector<std::function<Tensor(const Tensor&)>> unpacks_;
};

/// LibTorch's engine with default hooks for saved tensors, which LibTorch has only for Python.
class Engine final : public torch::autograd::Engine {
 public:
  static Engine& instance() {
    // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): an engine has state
    static Engine* const engine = [] {
      auto* made = new Engine;  // NOLINT: as LibTorch's own, its threads outlive static destruction
      torch::autograd::set_default_engine_stub([]() -> torch::autograd::Engine& { return instance(); });
      return made;
    }();
    return *engine;
  }
  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    Packs packs;
    {
      const std::lock_guard lock(mutex_);
      packs = packs_of_process_;
    }
    const Packs& inner = packs_of_thread();
    packs.insert(packs.end(), inner.begin(), inner.end());
    return packs.empty() ? nullptr : std::make_unique<PackedChain>(std::move(packs));
  }
  void push(std::shared_ptr<const PackTensor> pack) {
    const std::lock_guard lock(mutex_);
    packs_of_process_.push_back(std::move(pack));
  }
  void pop() {
    const std::lock_guard lock(mutex_);
    packs_of_process_.pop_back();
  }

 private:
  std::mutex mutex_;
  Packs packs_of_process_;
};
}  // namespace

void use_saved_tensor_engine() { Engine::instance(); }

SavedTensorScope::SavedTensorScope(PackTensor pack, Reach reach) : reach_(reach) {
  auto shared = std::make_shared<const PackTensor>(std::move(pack));
  Engine& engine = Engine::instance();
  if (reach == Reach::process) {
    engine.push(std::move(shared));
  } else {
    packs_of_thread().push_back(std::move(shared));
  }
}

SavedTensorScope::~SavedTensorScope() {
  if (reach_ == Reach::process) {
    Engine::instance().pop();
  } else {
    packs_of_thread().pop_back();
  }
}
}  // namespace optrush
