#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "buckets.h"

namespace optrush::ddp {
namespace {
class PlannedBuckets final : public Buckets {
 public:
  PlannedBuckets(const std::vector<GradientForm>& forms, Group& group, const BucketOptions& options,
                 BucketSums::Summed summed)
      : sums_(group, options.wire, std::move(summed)), views_(forms.size()) {
    for (auto& members : assign(stand_ins(forms), options)) {
      int64_t size = 0, at = 0;
      for (const size_t i : members) size += forms[i].numel();
      const Tensor flat = at::empty({size}, forms[members.front()].options);
      for (const size_t i : members) {
        views_[i] = flat.narrow(0, at, forms[i].numel()).view(forms[i].shape);
        at += forms[i].numel();
      }
      buckets_.push_back({flat, std::move(members)});
    }
  }

  Tensor view(size_t gradient) const override { return views_[gradient]; }
  void begin() override {}
  void ready(size_t) override {}
  void complete(std::span<const size_t>) override {
    for (const auto& [flat, members] : buckets_) sums_.start(flat, members);
    sums_.wait();
  }
  void settle() override {}

 private:
  struct Bucket {
    Tensor flat;
    std::vector<size_t> members;
  };
  BucketSums sums_;
  std::vector<Bucket> buckets_;
  Tensors views_;
};
}  // namespace

int64_t GradientForm::numel() const { return c10::multiply_integers(shape); }

Tensors stand_ins(const std::vector<GradientForm>& forms) {
  Tensors all;
  for (const GradientForm& form : forms) all.push_back(at::zeros({}, form.options).expand(form.shape));
  return all;
}

std::vector<std::vector<size_t>> assign(const Tensors& gradients, const BucketOptions& options) {
  if (gradients.empty()) return {};
  Tensors order(gradients.rbegin(), gradients.rend());
  std::vector<int64_t> numbers;
  for (size_t i = gradients.size(); i-- > 0;) numbers.push_back(static_cast<int64_t>(i));
  const auto limits = {static_cast<size_t>(options.first_bytes), static_cast<size_t>(options.bytes)};
  return std::get<0>(c10d::compute_bucket_assignment_by_size(order, limits, {}, numbers));
}

std::unique_ptr<Buckets> make_planned_buckets(const std::vector<GradientForm>& forms, Group& group,
                                              const BucketOptions& options, BucketSums::Summed summed) {
  return std::make_unique<PlannedBuckets>(forms, group, options, std::move(summed));
}
}  // namespace optrush::ddp
