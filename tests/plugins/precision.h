#pragma once
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "analysis/gate/gate.h"
#include "support/training.h"

// Shared by the tests of training in low precision.
namespace optrush::testing {
/// Counts calls of an operator on parameters during its lifetime. Callbacks of RecordFunction have no
/// context.
class CallCount {
 public:
  explicit CallCount(Params& params, std::string_view op = "aten::_to_copy") {
    counted() = op;
    storages().clear();
    for (const Param* param : params.all()) storages().insert(storage_of(param->leaf));
    calls() = 0;
    handle_ = at::addGlobalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& fn) -> std::unique_ptr<at::ObserverContext> {
          const std::string_view name = fn.name();
          if (name == counted() && storages().contains(storage_of(fn.inputs()[0].toTensor()))) ++calls();
          return nullptr;
        })
            .needsInputs(true)
            .scopes({at::RecordScope::FUNCTION}));
  }
  ~CallCount() { at::removeCallback(handle_); }
  CallCount(const CallCount&) = delete;
  CallCount& operator=(const CallCount&) = delete;
  int64_t total() const { return calls(); }

 private:
  static const void* storage_of(const Tensor& tensor) {
    return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
  }
  static std::set<const void*>& storages() {
    static std::set<const void*> set;
    return set;
  }
  static std::string_view& counted() {
    static std::string_view op;
    return op;
  }
  static std::atomic<int64_t>& calls() {
    static std::atomic<int64_t> count{0};
    return count;
  }
  at::CallbackHandle handle_ = 0;
};

/// A run computes a norm of each trained parameter in double, before and after all steps.
inline int64_t norms_of_a_run(Session& session) {
  return 2 * static_cast<int64_t>(session.data_parallel().shards().size());
}

inline double distance(const Tensor& a, const Tensor& b) {
  return ((a.to(at::kDouble) - b.to(at::kDouble)).norm() / b.to(at::kDouble).norm()).item<double>();
}

using Stack = std::vector<PluginUse>;
inline const PluginUse kBf16Weights = {"bf16_weights", Json::object()};

inline PluginUse checkpointing(Json options) { return {"activation_checkpointing", std::move(options)}; }

/// The largest relative difference of the losses of two runs.
inline double apart(const Json& a, const Json& b) {
  const auto x = losses(a), y = losses(b);
  EXPECT_EQ(x.size(), y.size());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::abs(x[i] - y[i]) / std::abs(y[i]));
  return worst;
}
inline const double kTolerance = allowance_of(Effect::precision, Arithmetic::reduced).loss;

inline RunSpec ten_steps(Stack stack) {
  RunSpec spec = nano_spec(std::move(stack));
  spec.train.warmup = 0;
  spec.train.steps = 10;
  return spec;
}
}  // namespace optrush::testing
