#include "train/train_step.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

namespace optrush {
namespace {
double sum_over_data(Mesh& mesh, double value) {
  if (mesh.data_size() == 1) return value;
  Tensor sum = at::scalar_tensor(value, at::kDouble);
  mesh.sum(sum, mesh.data());
  return sum.item<double>();
}

Tensor norm_of(std::span<Shard> shards, Mesh& mesh) {
  const at::NoGradGuard no_grad;
  const Tensors norms = gradient_norms(shards);
  if (norms.empty()) return {};
  Tensor squares = at::stack(norms).to(at::kDouble).square().sum();
  // Shards that are split hold different elements on the ranks of one dimension list: the same for every
  // shard.
  mesh.sum(squares, shards.front().split_over);
  return squares.sqrt();
}
}  // namespace

TrainStep::TrainStep(Session& session, StepClock& clock, std::vector<Batch> batches)
    : session_(session), clock_(clock), batches_(std::move(batches)) {
  int64_t valid = 0;
  for (const Batch& batch : batches_) valid += batch.valid_tokens;
  const double count = sum_over_data(session.mesh(), static_cast<double>(valid));
  tokens_ = static_cast<int64_t>(count);
  for (Batch& batch : batches_) batch.token_count = count;
}

Tensor TrainStep::forward(int64_t chunk, int64_t micro, Tensor in) {
  enter(Bucket::forward);
  session_.data_parallel().before_forward();
  Batch& batch = batches_.at(static_cast<size_t>(micro));
  if (!batch.cos.defined()) session_.prepare(batch);
  Tensor out = session_.forward(chunk, batch, std::move(in));
  if (out.dim() == 0) {
    const at::NoGradGuard no_grad;
    Tensor& loss = outcome_.loss;
    loss = loss.defined() ? loss + out.detach() : out.detach().clone();
  }
  return out;
}

Tensor TrainStep::backward(int64_t, int64_t, const Tensor& out, const Tensor& gradient, bool last) {
  enter(Bucket::backward);
  session_.data_parallel().before_backward(out, last);
  Tensor root = gradient;
  if (!root.defined()) {
    root = loss_gradient_ = session_.loss_gradient(out);
  }
  out.backward(root);
  return {};
}

void TrainStep::update() {
  auto& parallel = session_.data_parallel();
  parallel.finish();
  enter(Bucket::off);
  Tensor& norm = outcome_.gradient_norm;
  norm = norm_of(parallel.shards(), session_.mesh());
  if (norm.defined() && loss_gradient_.defined()) norm = norm / loss_gradient_;
  enter(Bucket::optimizer);
  Update update;
  update.lr = session_.spec().train.lr;
  update.lr_tensor = at::full({}, update.lr, at::TensorOptions(at::kFloat).device(session_.device()));
  session_.finish_gradients(update);
  outcome_.skipped = update.skip;
  for (const Param* param : session_.params().all()) param->step_copy.drop();
  session_.optimizer().step(parallel.shards(), update);
  parallel.zero_gradients();
}

void TrainStep::time_as_one() {
  enter(Bucket::whole);
  timed_as_one_ = true;
}

void TrainStep::enter(Bucket bucket) {
  if (!timed_as_one_) clock_.enter(bucket);
}

void plain_schedule(Step& step) {
  for (int64_t micro = 0; micro < step.microbatches(); ++micro) {
    const Tensor loss = step.forward(0, micro, {});
    step.backward(0, micro, loss, {}, micro + 1 == step.microbatches());
  }
  step.update();
}
}  // namespace optrush
