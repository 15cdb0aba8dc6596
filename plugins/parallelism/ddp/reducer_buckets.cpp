#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <map>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <utility>

#include "buckets.h"
#include "optrush/advanced/data_parallel.h"

namespace optrush::ddp {
namespace {
using c10::ivalue::Future;

/// Runs `work` as part of a backward, because the Reducer finishes at the end of one.
void within_a_backward(const std::function<void()>& work) {
  const at::AutoGradMode with_gradients(true);
  Tensor leaf = at::zeros({}).requires_grad_();
  after_accumulation(leaf, [&work](const Tensor&) { work(); });
  leaf.clone().backward();
}

/// Gives the Reducer stand-ins for the parameters, and marks each gradient as ready itself. With the real
/// parameters, autograd would mark a parameter as ready too early if several backwards add to it in one step,
/// as under recomputation. It could also not put the gradients of a bf16 parameter into an fp32 bucket.
class ReducerBuckets final : public Buckets {
 public:
  ReducerBuckets(const std::vector<GradientForm>& forms, Group& group, const BucketOptions& options,
                 BucketSums::Summed summed)
      : sums_(group, options.wire, std::move(summed)), params_(stand_ins(forms)) {
    for (size_t i = 0; i < params_.size(); ++i) {
      params_[i] = params_[i].detach().requires_grad_();
      number_of_[params_[i].unsafeGetTensorImpl()] = i;
    }
    forget_gradients();
    reducer_ = std::make_unique<c10d::Reducer>(
        params_, assign(params_, options),
        c10::intrusive_ptr<c10d::ProcessGroup>::unsafe_reclaim_from_nonowning(&group.process_group()),
        std::vector<bool>(params_.size(), false), options.bytes, /*find_unused_parameters=*/false,
        /*gradient_as_bucket_view=*/true, std::unordered_map<size_t, std::string>{}, options.first_bytes,
        /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false, std::vector<int64_t>{});
    reducer_->register_comm_hook(std::make_unique<Hook>(*this));
  }

  Tensor view(size_t gradient) const override { return params_[gradient].grad(); }
  void begin() override { reducer_->prepare_for_backward({}); }
  void ready(size_t gradient) override { reducer_->autograd_hook(gradient); }

  void complete(std::span<const size_t> others) override {
    if (others.empty()) return;
    within_a_backward([&] {
      for (const size_t gradient : others) ready(gradient);
    });
  }

  void settle() override {
    if (settled_) return;
    settled_ = true;
    forget_gradients();  // so that the old buckets are freed before the new ones are made
    reducer_->rebuild_buckets();
  }

 private:
  /// A registered hook also keeps the Reducer from dividing: gradients are sums.
  class Hook final : public c10d::CommHookInterface {
   public:
    explicit Hook(ReducerBuckets& owner) : owner_(owner) {}
    c10::intrusive_ptr<Future> runHook(c10d::GradBucket& bucket) override { return owner_.send(bucket); }
    Tensor parseHookResult(const c10::IValue& result) override { return result.toTensor(); }

   private:
    ReducerBuckets& owner_;
  };

  c10::intrusive_ptr<Future> send(c10d::GradBucket& bucket) {
    const Tensor& flat = bucket.getBufferRef();
    std::vector<size_t> numbers;
    for (const Tensor& param : bucket.getParameters())
      numbers.push_back(number_of_.at(param.unsafeGetTensorImpl()));
    sums_.start(flat, std::move(numbers));
    const std::vector<c10::Device> devices =
        flat.is_cpu() ? std::vector<c10::Device>{} : std::vector{flat.device()};
    auto future = c10::make_intrusive<Future>(c10::TensorType::get(), devices);
    sent_.emplace_back(future, flat);
    // The Reducer waits in a separate callback, which is queued after this one. Waiting here counts the time
    // as communication.
    if (bucket.isLast()) torch::autograd::Engine::get_default_engine().queue_callback([this] { wait(); });
    return future;
  }

  void wait() {
    sums_.wait();
    for (auto& [future, flat] : std::exchange(sent_, {})) future->markCompleted(flat);
  }

  /// Sets gradients, which the Reducer takes over into its buckets: zeros that need no separate memory.
  void forget_gradients() {
    for (Tensor& param : params_) param.mutable_grad() = at::zeros({}, param.options()).expand(param.sizes());
  }

  BucketSums sums_;
  Tensors params_;  ///< stand-ins; their gradients are views of the buckets
  std::map<const void*, size_t> number_of_;
  std::vector<std::pair<c10::intrusive_ptr<Future>, Tensor>> sent_;
  std::unique_ptr<c10d::Reducer> reducer_;
  bool settled_ = false;
};
}  // namespace

std::unique_ptr<Buckets> make_reducer_buckets(const std::vector<GradientForm>& forms, Group& group,
                                              const BucketOptions& options, BucketSums::Summed summed) {
  return std::make_unique<ReducerBuckets>(forms, group, options, std::move(summed));
}
}  // namespace optrush::ddp
