#include "train/continuation.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include "base/number_text.h"
#include "base/text.h"
#include "optrush/error.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
/// The sum of absolute values in fp64, computed in pieces: LibTorch makes a copy in fp64 of each.
double sum_of_absolutes(const Tensor& flat) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  Tensor sum = at::zeros({}, flat.options().dtype(at::kDouble));
  for (const Tensor& piece : flat.split(kPiece))
    sum.add_(at::linalg_vector_norm(piece, 1, {}, false, at::kDouble));
  return sum.item<double>();
}

/// One number per parameter, by which a change of the parameter is noticed.
std::vector<double> fingerprint(DataParallel& parallel) {
  const at::NoGradGuard no_grad;
  std::vector<double> sums;
  for (const Shard& shard : parallel.shards()) {
    const Tensor flat = shard.data.flatten();
    if (flat.numel() > 0) sums.push_back(sum_of_absolutes(flat) + flat[0].item<double>());
  }
  return sums;
}

/// Whether steps that were made with another number of ranks or another micro-batch count for the speed.
bool keeps_times(const Json& record, const RunSpec& spec) {
  const bool may_end_early = spec.train.epochs > 0 || spec.validate.patience > 0;
  return may_end_early || std::ssize(record.at("steps")) >= spec.train.steps;
}
}  // namespace

bool RunHistory::shares_otherwise() const {
  const Json& before = run_.before.at("about");
  return before.contains("spec") && run_.about.contains("spec") && before.at("spec") != run_.about.at("spec");
}

void RunHistory::begin(RunRecord& record, Measurement& measurement, Batches& batches) {
  const Json& before = run_.before;
  if (before.is_null()) {
    fingerprint_ = fingerprint(session_.data_parallel());
  } else {
    Json steps = before.at("record");
    // They have the times of rank 0.
    if (session_.ranks().rank != 0 || (shares_otherwise() && !keeps_times(steps, session_.spec())))
      for (Json& step : steps.at("steps")) step["timed"] = false;
    record.resume(steps);
    measurement.resume_joules(record::taken<std::optional<double>>(before.at("joules"), "joules"));
    interruptions_ = before.at("interruptions");
    fingerprint_ = before.at("fingerprint").is_null() ? fingerprint(session_.data_parallel())
                                                      : before.at("fingerprint").get<std::vector<double>>();
  }
  if (session_.first_step() > 0) resume_data(batches);
  const int64_t made = std::ssize(record.steps());
  first_step_ = session_.first_step() - made;
  if (made > 0 && !result()) interruptions_.push_back(session_.first_step());
  note_start();
  note_interruptions();
  note_other_ranks();
}

void RunHistory::note_start() {
  const RunSpec& spec = session_.spec();
  const TrainSpec& train = spec.train;
  if (spec.start.empty()) return;
  if (spec.weights_only) {
    session_.note("it began with the weights of the state in '" + spec.start +
                  "'; the optimizer, the number of steps, the data and the learning rate began anew");
    return;
  }
  check_schedule(train, first_step_);
  if (train.lr_decay == "none" && train.lr_warmup == 0) return;
  const auto rate = [&](int64_t step) { return exact_number(learning_rate(train, step)); };
  session_.note("the state is from step " + std::to_string(first_step_) +
                ", and the schedule of the learning rate counts from the first step of the whole training: " +
                rate(first_step_) + " in the first step of this run, " +
                rate(first_step_ + train.warmup + train.steps - 1) + " in the last");
}

std::optional<RunResult> RunHistory::result() const {
  if (run_.before.is_null() || !run_.before.at("result").is_object()) return std::nullopt;
  return run_result_from_json(run_.before.at("result"), "the result beside a saved state");
}

/// Samples of another order have other numbers; then the data start from the first one.
void RunHistory::resume_data(Batches& batches) {
  const int64_t step = session_.first_step();
  if (const auto& read = run_.read; !read) {
    if (run_.before.is_null())
      session_.note(
          "the state has no data position (an earlier version saved it); its steps are assumed to have read "
          "batches of this run's size");
  } else if (read->order == batches.order()) {
    batches.resume_at(step, read->samples);
  } else {
    batches.resume_at(step, 0);
    session_.note(
        "the run that saved the state read different sequences (different data, seq_len, seed or order), "
        "so the data start from their first sequence");
  }
}

void RunHistory::note_interruptions() {
  if (interruptions_.empty()) return;
  std::string steps;
  for (const Json& step : interruptions_)
    steps += (steps.empty() ? "" : ", ") + std::to_string(step.get<int64_t>());
  session_.note("it was interrupted and continued from its saved state at step " + steps +
                ", after a new warm-up");
}

void RunHistory::note_other_ranks() {
  if (run_.before.is_null() || !shares_otherwise()) return;
  const Json &before = run_.before.at("about"), &now = run_.about;
  if (before.at("ranks") == now.at("ranks")) return;
  session_.note("from step " + std::to_string(session_.first_step()) + " on it trained on " +
                counted(now.at("ranks").get<int64_t>(), "rank") + " instead of " +
                std::to_string(before.at("ranks").get<int64_t>()) + ", with the same global batch");
}

void RunHistory::check_that_something_changed(int64_t steps) const {
  if (!fingerprint_.empty() && fingerprint(session_.data_parallel()) == fingerprint_)
    throw Error(ErrorCode::diverged, "no parameter changed in " + counted(steps, "step"),
                "check the learning rate and the frozen parameters");
}

Json RunHistory::beside_state(const RunRecord& record, const Measurement& measurement,
                              const SavedPoint& saved, const std::optional<RunResult>& end) const {
  Json result;
  if (end) {
    result = to_json(*end);
    for (const char* field : {"steps", "validation", "saved"}) result.erase(field);  // they are in the record
  }
  Json beside = {{"about", run_.about},
                 {"fingerprint", fingerprint_},
                 {"joules", record::written(measurement.joules())},
                 {"interruptions", interruptions_},
                 {"result", std::move(result)}};
  if (session_.ranks().rank == 0) beside["record"] = record.to_json(saved);
  return beside;
}
}  // namespace optrush
