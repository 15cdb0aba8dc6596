#include "pipeline.h"

#include <ATen/Functions.h>

#include <chrono>

namespace optrush::pipeline_parallel {
namespace {
double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
}  // namespace

Pipeline::Pipeline(Run& run, const Shape& shape, DeferredWeights* late)
    : run_(run),
      shape_(shape),
      rank_(run.mesh().rank("pp")),
      order_(order_of(shape, rank_)),
      mail_(run.mesh().group({"pp"}), Timeline(shape), run.device()),
      late_(late) {}

void Pipeline::step(Step& step) {
  const auto start = std::chrono::steady_clock::now();
  const double waited = mail_.waited();
  for (const Action& action : order_) {
    switch (action.work) {
      case Work::forward:
        forward(step, action);
        break;
      case Work::backward:
        backward(step, action);
        break;
      case Work::weights:
        late_->run(action.micro);
        break;
    }
  }
  mail_.end_step();
  const double seconds = seconds_since(start);
  if (lengths_.empty()) expect_traffic();
  lengths_.push_back(seconds);
  busy_.push_back(seconds - (mail_.waited() - waited));
  step.update();
}

void Pipeline::forward(Step& step, const Action& action) {
  const int64_t stage = shape_.stage_of(rank_, action.chunk);
  Tensor in;
  if (stage > 0) in = mail_.receive({false, stage - 1, action.micro}, previous_rank());
  const Tensor out = step.forward(action.chunk, action.micro, std::move(in));
  if (stage + 1 < shape_.stages()) mail_.send({false, stage, action.micro}, out.detach(), next_rank());
  outputs_[{action.chunk, action.micro}] = out;
}

void Pipeline::backward(Step& step, const Action& action) {
  const int64_t stage = shape_.stage_of(rank_, action.chunk);
  Tensor gradient;
  if (stage + 1 < shape_.stages()) gradient = mail_.receive({true, stage + 1, action.micro}, next_rank());
  const Tensor out = outputs_.extract({action.chunk, action.micro}).mapped();
  if (late_ != nullptr) late_->begin(action.micro);
  const bool last = action.micro + 1 == shape_.micros;
  Tensor of_input = step.backward(action.chunk, action.micro, out, gradient, last);
  if (stage == 0) return;
  if (!of_input.defined()) {
    const Form& form = *mail_.form();
    of_input = at::zeros(form.sizes, at::TensorOptions(form.type).device(run_.device()));
  }
  mail_.send({true, stage, action.micro}, of_input, previous_rank());
}

void Pipeline::expect_traffic() const {
  int64_t messages = 0;
  for (int64_t chunk = 0; chunk < shape_.chunks; ++chunk) {
    const int64_t stage = shape_.stage_of(rank_, chunk);
    messages += (stage > 0 ? 1 : 0) + (stage + 1 < shape_.stages() ? 1 : 0);
  }
  const Form& form = *mail_.form();
  double bytes =
      static_cast<double>(messages * shape_.micros) * static_cast<double>(at::elementSize(form.type));
  for (const int64_t size : form.sizes) bytes *= static_cast<double>(size);
  run_.expect_traffic("send", {"pp"}, bytes);
}

/// A step begins on all ranks at about the same time, because the previous update computed the gradient norm
/// over all ranks; only the time of the optimizer differs. It ends when the last rank ends.
double Pipeline::bubble_percent() const {
  if (lengths_.empty()) return 0;
  const Tensor lengths = at::tensor(lengths_, at::kDouble);
  run_.mesh().group({"pp"}).all_reduce_max(lengths).wait();
  const Tensor idle = 1 - at::tensor(busy_, at::kDouble) / lengths;
  return 100 * idle.median().item<double>();
}
}  // namespace optrush::pipeline_parallel
