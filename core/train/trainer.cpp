#include "train/trainer.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <optional>

#include "base/counted.h"
#include "base/spec_json.h"
#include "data/batches.h"
#include "measure/flops.h"
#include "measure/memory.h"
#include "measure/saved_tensors.h"
#include "measure/step_costs.h"
#include "measure/step_trace.h"
#include "measure/wait_for.h"
#include "optrush/host/resolve.h"
#include "optrush/scopes.h"
#include "train/measurement.h"
#include "train/memory_growth.h"
#include "train/model_states.h"
#include "train/moved_elements.h"
#include "train/replicas.h"
#include "train/run_end.h"
#include "train/sample.h"
#include "train/saving.h"
#include "train/state.h"
#include "train/stop_request.h"
#include "train/train_step.h"
#include "train/turns.h"
#include "train/validation.h"

namespace optrush {
namespace {
/// One number for all parameters, to see that training changes them.
std::vector<double> fingerprint(DataParallel& parallel) {
  const at::NoGradGuard no_grad;
  std::vector<double> sums;
  for (const Shard& shard : parallel.shards())
    if (shard.data.numel() > 0)
      sums.push_back(at::linalg_vector_norm(shard.data, 1, {}, false, at::kDouble).item<double>() +
                     shard.data.flatten()[0].item<double>());
  return sums;
}

/// A number of a step on its way to the host: there once the step's last event is done, so that reading it
/// waits for nothing that is queued after it.
Tensor sent_to_host(const Tensor& number) {
  if (!number.defined() || number.is_cpu()) return number;
  Tensor host = at::empty({}, number.options().device(at::kCPU).pinned_memory(true));
  return host.copy_(number.detach(), /*non_blocking=*/true);
}

/// Which steps of a run are made here: all, or those that an interrupted run has left. They warm up again.
struct Stretch {
  int64_t begin, measured, end;  ///< counted from the run's first step

  Stretch(const TrainSpec& train, int64_t done, int64_t whole)
      : begin(done),
        measured(std::max(train.warmup, done + std::min(train.warmup, whole - done - 1))),
        end(whole) {}

  int64_t timed() const { return end - measured; }
  /// The second warm-up step, where there is one: in the first a technique may still compile or choose.
  int64_t accounted() const { return measured - begin > 1 ? begin + 1 : begin; }
};

class Trainer {
 public:
  Trainer(Session& session, const MetricsSink& sink, Turns* turns, TrainFiles files, Continuation run)
      : session_(session),
        turns_(turns),
        files_(std::move(files)),
        run_(std::move(run)),
        record_(sink),
        batches_(session.spec(), session.model(), session.mesh(), session.device(),
                 session.recipe().rows.resolve({}, one_document_each)),
        clock_(StepClock::make(session.device())),
        measurement_(session),
        end_(session.spec(), batches_.sequences_of_epoch(),
             global_batch(session.spec().train, session.mesh())),
        moved_(session),
        data_(session.recipe().data.resolve(
            {}, [this](int64_t step) { return evaluating() ? batches_.validation() : batches_.step(step); })),
        schedule_(session.recipe().schedule.resolve({}, plain_schedule)) {}

  Json run() {
    if (const std::string text = batches_.description(); !text.empty()) session_.note(text);
    if (!run_.before.is_null()) take_up();
    if (session_.first_step() > 0) take_up_data();
    Stretch stretch(session_.spec().train, static_cast<int64_t>(record_.steps().size()), end_.steps());
    first_step_ = session_.first_step() - stretch.begin;
    const bool ended = !run_.before.is_null() && run_.before.at("result").is_object();
    if (stretch.begin > 0 && !ended) interruptions_.push_back(session_.first_step());
    note_interruptions();
    if (const std::string why = end_.why_shorter(); !why.empty()) session_.note(why);
    if (!ended) return train(stretch);
    // Interrupted after its last save: all is known.
    Json result = run_.before.at("result");
    record_.add_to(result);
    return result;
  }

  /// One more step, which leaves nothing but the file.
  void trace() {
    const TrainSpec& train = session_.spec().train;
    enter_phase("tracing");
    StepTrace profiled(session_.device());
    TracedClock clock(*clock_);
    one_step(first_step_ + train.warmup + train.steps, clock);
    wait_for(session_.device());
    profiled.save(files_.trace);
  }

 private:
  /// What the interrupted run had made when it saved its state.
  void take_up() {
    record_.take_up(run_.before.at("record"));
    measurement_.take_up_joules(run_.before.at("joules"));
    interruptions_ = run_.before.at("interruptions");
    fingerprint_ = run_.before.at("fingerprint").get<std::vector<double>>();
  }

  /// Data go on behind the last sample that was read. Samples of another order have other numbers, so they
  /// begin with the first one.
  void take_up_data() {
    const int64_t step = session_.first_step();
    if (const auto& read = run_.read; !read) {
      if (run_.before.is_null())
        session_.note(
            "the state does not say how far data were read (an earlier version saved it): that each "
            "of its steps read a batch of this run's size is assumed");
    } else if (read->order == batches_.order()) {
      batches_.go_on(step, read->samples);
    } else {
      batches_.go_on(step, 0);
      session_.note(
          "the run that saved the state read other sequences (of other data, another seq_len, seed or "
          "arrangement), so data begin with their first sequence");
    }
  }

  void note_interruptions() {
    if (interruptions_.empty()) return;
    std::string steps;
    for (const Json& step : interruptions_)
      steps += (steps.empty() ? "" : ", ") + std::to_string(step.get<int64_t>());
    session_.note("it was interrupted, and went on from its saved state with step " + steps +
                  "; each time it warmed up again before its steps were timed");
  }

  Json train(Stretch& stretch) {
    if (run_.before.is_null()) fingerprint_ = fingerprint(session_.data_parallel());
    // The runs of the gate tell whether a technique is right, and nothing else.
    if (session_.spec().purpose == Purpose::measure) {
      if (session_.spec().validate.every > 0) validation_.emplace(session_, data_);
      // Of several rounds, the first one's state is the run's.
      if (session_.spec().save.every > 0 && session_.spec().round == 0 && !files_.state.empty())
        saving_.emplace(session_, files_.state);
      if (validation_ && session_.spec().validate.keep_best && session_.spec().round == 0 &&
          !files_.state.empty())
        saving_best_.emplace(session_, files_.state.parent_path() / "best");
      // Nobody goes on from what a run in turns saves.
      if (saving_ && turns_ == nullptr) stop_.emplace();
    }
    enter_phase("warmup");
    for (int64_t i = stretch.begin; i < stretch.end; ++i) {
      if (i == stretch.measured) {
        collect(/*wait=*/true);
        enter_phase("measuring");
        measurement_.start();
      }
      if (i >= stretch.measured && !has_turn()) {
        stretch.end = i;
        stop_measuring();
        check_that_something_changed();
        break;
      }
      const int64_t step = first_step_ + i;
      const bool watched = is_watched(i, stretch);
      if (watched) moved_.before();
      if (i == stretch.accounted()) {
        account_step(step);
      } else {
        one_step(step);
      }
      if (watched) moved_.after();
      collect(/*wait=*/false);
      if (i >= stretch.measured) note_memory();
      const int64_t done = i + 1;
      if (done == stretch.end) measured_all();
      const auto due = [&](const auto& what) { return what && (what->due(done) || done == stretch.end); };
      if (session_.ranks().size > 1 && (due(validation_) || due(saving_) || done == stretch.end))
        between_steps("comparing copies", [&] { check_replicas(session_); });
      if (due(validation_)) {
        between_steps("validating", [&] { validate(done); });
        if (saving_best_ && RunEnd::improved(record_.validations()))
          between_steps("saving the best", [&] { save_best(done); });
        const bool timed = done > stretch.measured;
        if (timed && done < stretch.end && end_.is_over(record_.validations())) end_early(done, stretch);
      }
      if (done == stretch.end && !session_.spec().sample.prompts.empty() && is_first_round())
        between_steps("sampling", [&] { sample_ = sample_text(session_); });
      if (due(saving_)) between_steps("saving", [&] { save(done, stretch); });
      if (stop_ && done < stretch.end) stop_if_asked(done, stretch);
    }
    return result(stretch);
  }

  /// All ranks after the same step: the state is what they have made so far.
  void stop_if_asked(int64_t done, const Stretch& stretch) {
    const int signal = stop_->asked(session_);
    if (signal == 0) return;
    if (!saving_->due(done)) between_steps("saving", [&] { save(done, stretch); });
    StopRequest::obey(signal);
  }

  /// Of several rounds, the first one has what is more than a measurement.
  bool is_first_round() const {
    return session_.spec().purpose == Purpose::measure && session_.spec().round == 0;
  }

  void measured_all() {
    stop_measuring();
    check_that_something_changed();
    warn_of_the_whole();
  }

  void end_early(int64_t done, Stretch& stretch) {
    const Json& best = record_.validations().at(*RunEnd::best(record_.validations()));
    std::array<char, 32> lowest{};
    std::snprintf(lowest.data(), lowest.size(), "%.4f", best.at("loss").get<double>());
    session_.note("it ended after " + std::to_string(done) + " of " + std::to_string(stretch.end) +
                  " steps: no validation loss was below that of step " + best.at("step").dump() + " (" +
                  lowest.data() + ") in " + std::to_string(session_.spec().validate.patience) +
                  " validations");
    stretch.end = done;
    measured_all();
  }

  /// It is no state that an interrupted run goes on from.
  void save_best(int64_t done) {
    const int64_t next_step = first_step_ + done;
    saving_best_->save(next_step, {.samples = batches_.first_sample(next_step), .order = batches_.order()},
                       [](const Json&) { return Json(); });
  }

  void check_that_something_changed() {
    if (!fingerprint_.empty() && fingerprint(session_.data_parallel()) == fingerprint_)
      throw Error("no parameter changed in " + counted(std::ssize(record_.steps()), "step"),
                  "check the learning rate and what is frozen");
  }

  /// A few updates, spread over the timed steps.
  bool is_watched(int64_t i, const Stretch& stretch) const {
    constexpr int64_t kUpdates = 8;
    if (session_.spec().purpose != Purpose::measure || i < stretch.measured) return false;
    const int64_t timed = stretch.timed(), at = i - stretch.measured;
    return at * kUpdates / timed != (at + 1) * kUpdates / timed;
  }

  void note_memory() {
    host_memory_.after_step(cpu_allocated());
    if (!session_.device().is_cpu()) device_memory_.after_step(allocated_now(session_.device()));
  }

  void warn_of_the_whole() {
    if (session_.spec().purpose != Purpose::measure) return;
    const std::pair<const MemoryGrowth&, const char*> all[] = {{device_memory_, "on the device"},
                                                               {host_memory_, "in the host's memory"}};
    for (const auto& [memory, where] : all)
      if (const auto bytes = memory.per_step())
        session_.warn("tensors " + std::string(where) + " grow by " + std::to_string(std::llround(*bytes)) +
                      " bytes a step: a plugin keeps what a step made, and a long run ends out of memory");
    if (const std::string text = moved_.warning(); !text.empty()) session_.warn(text);
  }

  void enter_phase(const std::string& name) {
    phase_ = name;
    session_.enter_phase(name);
  }

  /// The timed steps so far are recorded, and what comes now is none of them.
  void stop_measuring() {
    collect(/*wait=*/true);
    measurement_.stop();
  }

  /// In the time of neither.
  void between_steps(const std::string& phase, const std::function<void()>& act) {
    const bool interrupts = measurement_.is_on();
    const std::string before = phase_;
    interrupts ? stop_measuring() : collect(/*wait=*/true);
    wait_for(session_.device());
    enter_phase(phase);
    act();
    enter_phase(before);
    if (interrupts) measurement_.start();
  }

  void validate(int64_t done) {
    const auto start = std::chrono::steady_clock::now();
    const double loss = validation_->loss();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!std::isfinite(loss))
      throw Error("the validation loss is not finite after " + counted(done, "step"),
                  "check validate.data and the precision of this rung");
    record_.add_validation({{"step", first_step_ + done}, {"loss", loss}, {"seconds", seconds}});
  }

  void save(int64_t done, const Stretch& stretch) {
    const int64_t next_step = first_step_ + done;
    const DataPosition read{.samples = batches_.first_sample(next_step), .order = batches_.order()};
    record_.add_saved(saving_->save(next_step, read, [&](const Json& saved) {
      if (turns_ != nullptr) return Json();  // nobody goes on from it
      Json end = done == stretch.end ? result(stretch) : Json();
      if (end.is_object())  // the record has these
        for (const char* field : {"steps", "validation", "saved"}) end.erase(field);
      Json record = {{"about", run_.about},
                     {"record", record_.to_json()},
                     {"fingerprint", fingerprint_},
                     {"joules", measurement_.joules()},
                     {"interruptions", interruptions_},
                     {"result", std::move(end)}};
      record["record"]["saved"].push_back(saved);
      return record;
    }));
  }

  /// Hands the turn on where its steps are done, once the device has nothing of them left to do. False: there
  /// are to be no more steps.
  bool has_turn() {
    timed_ = true;
    if (turns_ == nullptr || left_-- > 0) return true;
    collect(/*wait=*/true);
    wait_for(session_.device());
    const Json& steps = record_.steps();
    const auto [next, alone] = turns_->next(steps.empty() ? 0 : steps.back()["seconds"].get<double>());
    alone_ = alone_ || alone;
    left_ = next - 1;
    // It fills the caches that others have emptied. A step that has its turn alone is too long to show that.
    timed_ = alone || left_ == 0;
    return next > 0;
  }

  void one_step(int64_t number) { one_step(number, *clock_); }

  void one_step(int64_t number, StepClock& clock) {
    session_.begin_step(number);
    clock.enter(Bucket::data);
    TrainStep step(session_, clock, data_(number));
    schedule_(step);
    clock.enter(Bucket::off);
    const auto& [loss, norm, skipped] = step.outcome();
    pending_.push_back({number, timed_, sent_to_host(loss), sent_to_host(norm), sent_to_host(skipped),
                        session_.update()->lr, step.tokens(), batches_.content(number),
                        step.computed_pairs()});
    clock.end_step();
    session_.recipe().fire(Event::step_end, session_);
  }

  /// One warm-up step also tells what the recipe keeps for the backward and what its operators cost. What
  /// attention computes inside of documents follows from their lengths, all else from shapes, which stay.
  void account_step(int64_t number) {
    Tensors resident;
    for (Param* param : session_.params().all()) {
      resident.insert(resident.end(), param->stored.begin(), param->stored.end());
      if (param->leaf.defined()) resident.push_back(param->leaf);
    }
    StepCosts costs(session_.params(), session_.device());
    CountedClock counted(*clock_, costs);
    SavedTensorCount saved(resident, [this](const Tensor& tensor) {
      return std::ranges::any_of(session_.params().all(),
                                 [&](const Param* param) { return param->step_copy.holds(tensor); });
    });
    one_step(number, counted);
    saved.stop();
    costs.stop();
    // A mistake of the optimizer's is told at once, and not when its state is saved or the run has ended.
    for (const Shard& shard : session_.data_parallel().shards()) optimizer_state(session_, shard);
    activations_ = saved.peak_bytes();
    const double pairs = pending_.back().computed_pairs;
    flops_of_a_pair_ = pairs > 0 ? costs.document_flops() / pairs : 0;
    other_flops_ = costs.flops() - flops_of_a_pair_ * pairs;
    costs_ = costs.to_json();
  }

  void collect(bool wait) {
    while (!pending_.empty()) {
      const auto time = clock_->take(wait);
      if (!time) return;
      record(pending_.front(), *time);
      pending_.pop_front();
    }
  }

  struct Pending {
    int64_t step;
    bool timed;
    Tensor loss, gradient_norm, skipped;
    double learning_rate;
    int64_t trained;
    StepContent content;
    double computed_pairs;
  };

  void record(const Pending& pending, const StepTime& time) {
    const auto number = [](const Tensor& tensor) {
      return tensor.defined() ? Json(tensor.item<double>()) : Json();
    };
    const bool skipped = pending.skipped.defined() && pending.skipped.item<double>() != 0;
    Json step = {{"step", pending.step},
                 {"timed", pending.timed},
                 {"loss", number(pending.loss)},
                 {"grad_norm", skipped ? Json() : number(pending.gradient_norm)},
                 {"learning_rate", pending.learning_rate},
                 {"tokens", pending.trained},
                 {"processed_tokens", pending.content.tokens},
                 {"positions", pending.content.positions},
                 {"attention_pairs", pending.content.pairs},
                 {"seconds", time.total()},
                 {"phases", phases_of(time)}};
    record_.add_step(std::move(step), other_flops_ + flops_of_a_pair_ * pending.computed_pairs);
  }

  Json result(const Stretch& stretch) {
    Json result;
    record_.add_to(result);
    const auto [parameters, gradients, optimizer] = model_state_bytes(session_);
    const MemoryPeak& peak = measurement_.peak();
    result["memory"] = {{"peak_allocated", peak.allocated},
                        {"peak_reserved", peak.reserved ? Json(*peak.reserved) : Json()},
                        {"process", measurement_.process_bytes()},
                        {"parts",
                         {{"parameters", parameters},
                          {"gradients", gradients},
                          {"optimizer_state", optimizer},
                          {"activations", activations_},
                          {"total", parameters + gradients + optimizer + activations_}}}};
    result["costs"] = costs_;
    if (session_.ranks().size > 1) result["collectives"] = measurement_.collectives(stretch.timed());
    // Of the whole device, so of others' turns, too.
    result["energy_joules"] = turns_ == nullptr || alone_ ? measurement_.joules() : Json();
    if (saving_best_ && RunEnd::best(record_.validations())) {
      const Json& best = record_.validations().at(*RunEnd::best(record_.validations()));
      result["best"] = {{"step", best.at("step")}, {"loss", best.at("loss")}};
    }
    if (!sample_.is_null()) result["sample"] = sample_;
    if (!session_.recipe().counters().empty()) result["counters"] = measurement_.counters(stretch.timed());
    result["flops_per_token"] = record_.flops_per_token(model_flops(session_.model()));
    return result;
  }

  Session& session_;
  Turns* turns_;  ///< null: there are none
  TrainFiles files_;
  Continuation run_;
  RunRecord record_;
  int64_t first_step_ = 0;              ///< of the run, whoever has made it
  std::vector<double> fingerprint_;     ///< of the parameters before it began
  Json interruptions_ = Json::array();  ///< steps with which it went on
  int64_t left_ = 0;                    ///< steps of the present turn
  bool alone_ = false;                  ///< nobody takes turns with this run
  bool timed_ = false;                  ///< the present step
  Batches batches_;
  std::unique_ptr<StepClock> clock_;
  Measurement measurement_;
  RunEnd end_;
  Json sample_;  ///< null: none was made
  MovedElements moved_;
  MemoryGrowth host_memory_, device_memory_;  ///< over the timed steps made here
  std::string phase_;
  std::function<std::vector<Batch>(int64_t)> data_;
  std::optional<Validation> validation_;
  std::optional<Saving> saving_, saving_best_;
  std::optional<StopRequest> stop_;  ///< of a run that goes on from its state
  std::function<void(Step&)> schedule_;
  std::deque<Pending> pending_;
  int64_t activations_ = 0;
  double other_flops_ = 0, flops_of_a_pair_ = 0;  ///< that this rank executes in a step
  Json costs_;
};
}  // namespace

Json train(Session& session, const MetricsSink& sink, Turns* turns, const TrainFiles& files,
           const Continuation& run) {
  Trainer trainer(session, sink, turns, files, run);
  Json result = trainer.run();
  if (session.spec().trace && !files.trace.empty()) trainer.trace();
  return result;
}
}  // namespace optrush
