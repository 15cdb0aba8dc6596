#include "train/train_step.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include "optrush/error.h"

namespace optrush {
void count_step(const Session& session, std::span<Batch> batches) {
  const Mesh& mesh = session.mesh();
  double tokens = 0, sequences = 0, filled = 0;
  for (const Batch& batch : batches) {
    tokens += static_cast<double>(batch.valid_tokens);
    sequences += static_cast<double>(batch.valid_sequences);
    filled += static_cast<double>(batch.filled_positions());
  }
  const Tensor sums = at::tensor({tokens, sequences, filled}, at::kDouble);
  if (session.ranks().alone)
    sums.mul_(mesh.size(mesh.data()));  // the other ranks count as many
  else
    mesh.group(mesh.data()).all_reduce(sums).wait();
  for (Batch& batch : batches) {
    batch.token_count = sums[0].item<double>();
    batch.filled_count = sums[2].item<double>();
    // Ranks that split sequences among them each count all sequences.
    batch.sequence_count = sums[1].item<double>() / static_cast<double>(mesh.size(mesh.sequence()));
  }
}

/// Sums the parts of all ranks that run the head. Ranks that do not split the data have copies.
Tensor global_loss(const Session& session, const Tensor& part) {
  const Mesh& mesh = session.mesh();
  if (mesh.world_size() == 1) return part;
  const at::NoGradGuard no_grad;
  const Tensor sums = at::zeros({2}, at::TensorOptions(at::kDouble).device(session.device()));
  if (part.defined()) {
    sums[0].copy_(part);
    sums[1].fill_(1);
  }
  mesh.group(mesh.all()).all_reduce(sums).wait();
  return sums[0] * static_cast<double>(mesh.size(mesh.data())) / sums[1];
}

TrainStep::TrainStep(Session& session, StepClock& clock, std::vector<Batch> batches, Updates updates)
    : session_(session), clock_(clock), batches_(std::move(batches)) {
  session.groups().around_waits(
      [&clock] { return std::make_shared<BucketScope>(clock, Bucket::communication); });
  session.allow_update(updates == Updates::yes);
  for (Shard& shard : session.data_parallel().shards()) shard.released.clear();
  if (batches_.empty())
    throw Error(ErrorCode::invalid_plugin, "the slot 'data' returned a step without micro-batches",
                "report this error to the author of the plugin that makes them");
  const auto counted = session.groups().bookkeeping();
  count_step(session, batches_);
  tokens_ = static_cast<int64_t>(batches_.front().token_count);
}

TrainStep::~TrainStep() {
  session_.allow_update(false);
  session_.groups().around_waits({});
}

double TrainStep::computed_pairs() const {
  double pairs = 0;
  for (const Batch& batch : batches_) pairs += batch.segments.pairs;
  return pairs;
}

Tensor TrainStep::forward(int64_t chunk, int64_t micro, Tensor in) {
  enter(Bucket::forward);
  session_.data_parallel().before_forward();
  Batch& batch = batches_.at(static_cast<size_t>(micro));
  if (!batch.cos.defined()) session_.prepare(batch);
  if (in.defined()) {
    in = in.detach().requires_grad_();
    inputs_[{chunk, micro}] = in;
  }
  Tensor out = session_.forward(chunk, batch, std::move(in), /*seeded=*/!timed_as_one_);
  if (out.dim() == 0) {
    const at::NoGradGuard no_grad;
    loss_ = loss_.defined() ? loss_ + out.detach() : out.detach().clone();
  }
  return out;
}

Tensor TrainStep::backward(int64_t chunk, int64_t micro, const Tensor& out, const Tensor& gradient,
                           bool last) {
  enter(Bucket::backward);
  session_.data_parallel().before_backward(out, last);
  Tensor root = gradient;
  if (!root.defined()) root = loss_gradient_ = session_.loss_gradient(out);
  // A chunk with only frozen parameters passes no gradient on.
  if (out.requires_grad() || !gradient.defined()) out.backward(root);
  const auto found = inputs_.extract({chunk, micro});
  return found.empty() ? Tensor() : found.mapped().grad();
}

/// A rank without the head also gets the scale from the slot.
Tensor TrainStep::scale_of_gradients() const {
  if (loss_gradient_.defined()) return loss_gradient_;
  return session_.loss_gradient(at::zeros({}, at::TensorOptions(at::kFloat).device(session_.device())));
}

void TrainStep::update() {
  auto& parallel = session_.data_parallel();
  parallel.finish();
  Gradients gradients = session_.gradients();
  enter(Bucket::off);
  {
    const auto counted = session_.groups().bookkeeping();
    outcome_.loss = global_loss(session_, loss_);
    outcome_.gradient_norm = gradients.norm() / scale_of_gradients();
  }
  enter(Bucket::optimizer);
  Update update = *session_.update();
  session_.finish_gradients(gradients, update);
  outcome_.skipped = update.skip;
  if (update.skip.defined()) update.skip = update.skip.to(update.lr_tensor.device());
  for (const Param* param : session_.params().all()) param->compute_copy.drop();
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

void default_schedule(Step& step) {
  for (int64_t micro = 0; micro < step.microbatches(); ++micro) {
    const Tensor loss = step.forward(0, micro, {});
    step.backward(0, micro, loss, {}, micro + 1 == step.microbatches());
  }
  step.update();
}
}  // namespace optrush
