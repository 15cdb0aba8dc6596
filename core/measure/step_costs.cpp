#include "measure/step_costs.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <string>

namespace optrush {
namespace {
constexpr auto kBookkeeping = static_cast<size_t>(Bucket::off);

struct OfOperator {
  int64_t calls = 0, launches = 0;
  double bytes = 0;
};

Json whole_number(double value) { return static_cast<int64_t>(value); }

Json json_of(const OperatorCost& cost, bool alone) {
  return {{"launches", cost.launches},
          {"host_waits", alone ? Json() : Json(cost.host_waits)},
          {"copies", alone ? Json() : Json(cost.copies)},
          {"copied_bytes", alone ? Json() : whole_number(cost.copied_bytes)},
          {"casts", cost.casts},
          {"cast_bytes", whole_number(cost.cast_bytes)},
          {"elementwise_bytes", whole_number(cost.elementwise_bytes)},
          {"matmul_flops", whole_number(cost.matmul_flops)},
          {"attention_flops", whole_number(cost.attention_flops)},
          {"noted_flops", whole_number(cost.noted_flops)}};
}
}  // namespace

struct StepCosts::Ledger {
  Ledger(const Params& params, at::Device device) : device(device) {
    for (const Param* param : params.all()) {
      if (param->leaf.defined() && param->leaf.has_storage())
        casts.emplace(param->leaf.storage().unsafeGetStorageImpl(), 0);
    }
  }
  void add(const OperatorCost& cost, const std::string& name, const Tensors& cast_from) {
    const std::lock_guard lock(mutex);
    costs[bucket] += cost;
    if (bucket != kBookkeeping) {
      OfOperator& of = operators[name];
      of.calls += 1, of.launches += cost.launches, of.bytes += cost.elementwise_bytes;
    }
    for (const Tensor& tensor : cast_from) {
      if (!tensor.has_storage()) continue;
      const auto found = casts.find(tensor.storage().unsafeGetStorageImpl());
      if (found != casts.end()) ++found->second;
    }
  }
  /// The ledger in use. Callbacks of RecordFunction are plain functions without a context.
  static std::shared_ptr<Ledger>& present() {
    static std::shared_ptr<Ledger> ledger;
    return ledger;
  }

  const at::Device device;
  std::mutex mutex;
  std::atomic<size_t> bucket{static_cast<size_t>(Bucket::data)};
  std::array<OperatorCost, kBuckets> costs;
  std::map<const void*, int64_t> casts;  ///< number of casts, by storage of the parameter
  std::map<std::string, OfOperator> operators;
};

namespace {
/// An operator that runs on this thread, and its caller.
struct Running final : at::ObserverContext {
  Running(std::shared_ptr<StepCosts::Ledger> ledger, Running* outer, const at::RecordFunction& fn)
      : ledger(std::move(ledger)), outer(outer), call(fn, this->ledger->device) {}
  std::shared_ptr<StepCosts::Ledger> ledger;
  Running* outer;
  bool inside = false;  ///< an operator inside has a cost
  OperatorCall call;
};
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): of the thread that runs the step
thread_local Running* running = nullptr;

std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& fn) {
  // An operator inside a kernel has no separate cost.
  if (running != nullptr && !running->call.made_of_others()) return nullptr;
  auto ledger = StepCosts::Ledger::present();
  if (!ledger) return nullptr;
  auto here = std::make_unique<Running>(std::move(ledger), running, fn);
  running = here.get();
  return here;
}

void end(const at::RecordFunction& fn, at::ObserverContext* context) {
  auto* here = dynamic_cast<Running*>(context);
  if (here == nullptr) return;
  running = here->outer;
  const OperatorCost cost = here->call.end(fn, here->inside);
  const bool costs =
      cost.launches + cost.host_waits + cost.copies > 0 || cost.noted_flops + cost.document_flops > 0;
  if (here->outer != nullptr) here->outer->inside = here->outer->inside || here->inside || costs;
  if (costs) here->ledger->add(cost, here->call.name(), here->call.cast_from());
}
}  // namespace

StepCosts::StepCosts(const Params& params, at::Device device)
    : ledger_(std::make_shared<Ledger>(params, device)) {
  Ledger::present() = ledger_;
  handle_ = at::addGlobalCallback(at::RecordFunctionCallback(&start, &end)
                                      .needsInputs(true)
                                      .needsOutputs(true)
                                      .scopes({at::RecordScope::FUNCTION}));
}
StepCosts::~StepCosts() { stop(); }

void StepCosts::stop() {
  if (handle_ == 0) return;
  at::removeCallback(handle_);
  handle_ = 0;
  Ledger::present().reset();
}

void StepCosts::enter(Bucket bucket) { ledger_->bucket = static_cast<size_t>(bucket); }

OperatorCost StepCosts::total() const {
  OperatorCost sum;
  for (size_t i = 0; i < kBuckets; ++i)
    if (i != kBookkeeping) sum += ledger_->costs[i];
  return sum;
}

Json StepCosts::to_json() const {
  const bool alone = ledger_->device.is_cpu();
  Json phases = Json::object(), operators = Json::object();
  for (size_t i = 0; i < kBuckets; ++i) {
    const OperatorCost& cost = ledger_->costs[i];
    if (cost.launches + cost.host_waits + cost.copies > 0)
      phases[name_of(static_cast<Bucket>(i))] = json_of(cost, alone);
  }
  for (const auto& [name, of] : ledger_->operators)
    operators[name] = {{"calls", of.calls}, {"launches", of.launches}, {"bytes", whole_number(of.bytes)}};
  int64_t cast = 0, most = 0;
  for (const auto& [storage, casts] : ledger_->casts) {
    cast += casts > 0 ? 1 : 0;
    most = std::max(most, casts);
  }
  return {{"total", json_of(total(), alone)},
          {"phases", phases},
          {"weight_casts", {{"parameters", cast}, {"most", most}}},
          {"operators", operators}};
}
}  // namespace optrush
