#include "distributed/functional_group.h"

#include <memory>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

namespace optrush {
namespace {
using Calls = std::shared_ptr<const FunctionalCalls>;

class SeenWork final : public c10d::Work {
 public:
  SeenWork(c10::intrusive_ptr<c10d::Work> inner, Calls calls, size_t bytes)
      : inner_(std::move(inner)), calls_(std::move(calls)), bytes_(bytes) {}

  bool isCompleted() override { return inner_->isCompleted(); }
  bool isSuccess() const override { return inner_->isSuccess(); }
  void synchronize() override { inner_->synchronize(); }
  bool wait(std::chrono::milliseconds timeout) override {
    bool done = false;
    calls_->around_wait([&] { done = inner_->wait(timeout); }, bytes_);
    return done;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return inner_->getFuture(); }

 private:
  c10::intrusive_ptr<c10d::Work> inner_;
  Calls calls_;
  size_t bytes_;
};

class FunctionalGroup final : public c10d::ProcessGroup {
 public:
  FunctionalGroup(c10::intrusive_ptr<c10d::ProcessGroup> inner, FunctionalCalls calls)
      : c10d::ProcessGroup(inner->getRank(), inner->getSize()),
        inner_(std::move(inner)),
        calls_(std::make_shared<FunctionalCalls>(std::move(calls))) {}

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    size_t bytes = 0;
    for (const Tensor& tensor : tensors) {
      calls_->begun(tensor);
      bytes += tensor.nbytes();
    }
    return c10::make_intrusive<SeenWork>(inner_->allreduce(tensors, options), calls_, bytes);
  }

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> inner_;
  Calls calls_;
};
}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> functional_group(c10::intrusive_ptr<c10d::ProcessGroup> inner,
                                                        FunctionalCalls calls) {
  return c10::make_intrusive<FunctionalGroup>(std::move(inner), std::move(calls));
}
}  // namespace optrush
