#include "train/step_maker.h"

#include <ATen/Functions.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "measure/saved_tensors.h"
#include "measure/step_costs.h"
#include "measure/wait_for.h"
#include "optrush/error.h"
#include "optrush/host/resolve.h"
#include "optrush/scopes.h"
#include "train/state.h"
#include "train/train_step.h"

namespace optrush {
namespace {
/// Copies a number of a step to the host without waiting. It is valid after the step's last event.
Tensor sent_to_host(const Tensor& number) {
  if (!number.defined() || number.is_cpu()) return number;
  Tensor host = at::empty({}, number.options().device(at::kCPU).pinned_memory(true));
  return host.copy_(number.detach(), /*non_blocking=*/true);
}

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

/// Profiles operators and their work on a GPU from construction to save(), with LibTorch's profiler.
class StepTrace {
 public:
  explicit StepTrace(at::Device device) {
    std::set<ActivityType> activities = {ActivityType::CPU};
    if (device.is_cuda()) activities.insert(ActivityType::CUDA);
    const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO,
                                                       /*report_input_shapes=*/true);
    profiler::prepareProfiler(config, activities);
    profiler::enableProfiler(config, activities);
  }
  ~StepTrace() {
    range_.reset();
    if (running_) profiler::disableProfiler();
  }
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  /// Marks the phase as a range in the trace; none: the step has ended.
  void enter(std::optional<Bucket> bucket) {
    range_.reset();
    if (!bucket) return;
    range_.emplace(at::RecordScope::USER_SCOPE);
    if (range_->isActive()) range_->before(bucket == Bucket::whole ? "step" : name_of(*bucket));
  }
  /// Stops and writes a Chrome trace (JSON) for chrome://tracing or ui.perfetto.dev.
  void save(const std::filesystem::path& file) {
    running_ = false;
    const auto result = profiler::disableProfiler();
    const std::filesystem::path unfinished = file.string() + ".tmp";
    result->save(unfinished.string());
    std::filesystem::rename(unfinished, file);
  }

 private:
  bool running_ = true;
  std::optional<at::RecordFunction> range_;
};
}  // namespace

StepMaker::StepMaker(Session& session, RunRecord& record)
    : session_(session),
      record_(record),
      batches_(session.spec(), session.model(), session.mesh(), session.device(),
               session.recipe().rows.resolve({}, one_document_each), padding_of(session.recipe())),
      clock_(StepClock::make(session.device())),
      data_(session.recipe().data.resolve(
          {}, [this](int64_t step) { return evaluating() ? batches_.validation() : batches_.step(step); })),
      schedule_(session.recipe().schedule.resolve({}, default_schedule)) {}

void StepMaker::make(int64_t number, bool timed, StepClock& clock) {
  session_.begin_step(number);
  clock.enter(Bucket::data);
  TrainStep step(session_, clock, data_(number));
  schedule_(step);
  clock.enter(Bucket::off);
  if (timed) uncounted_memory_ = std::max(uncounted_memory_, step.uncounted_memory());
  const auto& [loss, norm, skipped] = step.outcome();
  pending_.push_back({number, timed, sent_to_host(loss), sent_to_host(norm), sent_to_host(skipped),
                      session_.update()->lr, step.tokens(), batches_.content(number), step.computed_pairs()});
  clock.end_step();
  session_.recipe().fire(Event::step_end, session_);
}

void StepMaker::account(int64_t number, bool timed) {
  Tensors resident;
  for (Param* param : session_.params().all()) {
    resident.insert(resident.end(), param->stored.begin(), param->stored.end());
    if (param->leaf.defined()) resident.push_back(param->leaf);
  }
  StepCosts costs(session_.params(), session_.device());
  WatchedClock counted(*clock_, costs.watch());
  SavedTensorCount saved(resident, [this](const Tensor& tensor) {
    return std::ranges::any_of(session_.params().all(),
                               [&](const Param* param) { return param->compute_copy.holds(tensor); });
  });
  make(number, timed, counted);
  saved.stop();
  costs.stop();
  // Checks the optimizer's state now, and not only when the state is saved or the run ends.
  for (const Shard& shard : session_.data_parallel().shards()) optimizer_state(session_, shard);
  activations_ = saved.peak_bytes();
  const double pairs = pending_.back().computed_pairs;
  const OperatorCost total = costs.total();
  flops_of_a_pair_ = pairs > 0 ? total.document_flops / pairs : 0;
  other_flops_ = total.flops() - flops_of_a_pair_ * pairs;
  accounted_positions_ = static_cast<double>(pending_.back().content.positions);
  costs_ = costs.to_json();
}

void StepMaker::trace(int64_t number, const std::filesystem::path& file) {
  StepTrace profiled(session_.device());
  WatchedClock clock(*clock_, [&](const auto& bucket) { profiled.enter(bucket); });
  make(number, /*timed=*/false, clock);
  wait_for(session_.device());
  profiled.save(file);
}

void StepMaker::collect(bool wait) {
  while (!pending_.empty()) {
    const auto time = clock_->take(wait);
    if (!time) return;
    record(pending_.front(), *time);
    pending_.pop_front();
  }
}

/// `pass`: the part of a step whose result is not finite.
std::string StepMaker::cure_of_not_finite(const std::string& pass) const {
  return record_.steps().empty() ? "no update was made yet, so a " + pass +
                                       " is the cause: find it with optrush check, or by removing one plugin "
                                       "after the other"
                                 : "lower the learning rate, or check the precision of this rung";
}

/// Throws an Error if nothing trains. A missing loss or norm is allowed: another rank has it, or a loss scale
/// was too large and the update was skipped.
void StepMaker::check(const StepResult& step, bool has_loss, bool has_norm) const {
  const std::string at = " at step " + std::to_string(step.step);
  if (has_loss && !std::isfinite(step.loss))
    throw Error(ErrorCode::diverged, "the loss is not finite" + at, cure_of_not_finite("forward"));
  if (!has_norm) return;
  if (step.grad_norm == 0)
    throw Error(ErrorCode::diverged, "the gradient norm is zero" + at + ": no parameter is trained",
                "if the loss (" + Json(step.loss).dump() +
                    ") has diverged, lower the learning rate; otherwise check the frozen parameters");
  if (!std::isfinite(step.grad_norm))
    throw Error(ErrorCode::diverged,
                "the gradient norm is not finite" + at + ", although the loss is " + Json(step.loss).dump(),
                cure_of_not_finite("backward"));
}

void StepMaker::record(const MadeStep& made, const StepTime& time) {
  const auto number = [](const Tensor& tensor) { return tensor.defined() ? tensor.item<double>() : kNaN; };
  const bool skipped = made.skipped.defined() && made.skipped.item<double>() != 0;
  StepResult step{.step = made.step,
                  .timed = made.timed,
                  .loss = number(made.loss),
                  .grad_norm = skipped ? kNaN : number(made.gradient_norm),
                  .learning_rate = made.learning_rate,
                  .trained = made.trained,
                  .tokens = made.content.tokens,
                  .positions = made.content.positions,
                  .attention_pairs = made.content.pairs,
                  .seconds = time.total(),
                  .phases = phases_of(time)};
  check(step, made.loss.defined(), made.gradient_norm.defined() && !skipped);
  const double size =
      accounted_positions_ > 0 ? static_cast<double>(made.content.positions) / accounted_positions_ : 1;
  record_.add_step(std::move(step), other_flops_ * size + flops_of_a_pair_ * made.computed_pairs);
}
}  // namespace optrush
