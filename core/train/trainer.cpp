#include "train/trainer.h"

#include <ATen/Functions.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>

#include "base/seconds_since.h"
#include "distributed/rendezvous.h"
#include "io/state_folder.h"
#include "machine/environment.h"
#include "measure/flops.h"
#include "measure/wait_for.h"
#include "spec/state_files.h"
#include "train/interleaving.h"
#include "train/measurement.h"
#include "train/run_end.h"
#include "train/sample.h"
#include "train/state.h"
#include "train/step_maker.h"
#include "train/step_watch.h"
#include "train/validation.h"

namespace optrush {
namespace {
/// The steps that this process makes: all, or those that an interrupted run has left, after another warm-up.
struct StepRange {
  int64_t begin, measured, end;  ///< counted from the first step of the run

  StepRange(const TrainSpec& train, int64_t done, int64_t whole)
      : begin(done),
        measured(std::max(train.warmup, done + std::min(train.warmup, whole - done - 1))),
        end(whole) {}

  int64_t timed() const { return end - measured; }
  /// The step whose costs are counted: the second warm-up step if there is one, as the first may compile.
  int64_t accounted() const { return measured - begin > 1 ? begin + 1 : begin; }
};

/// Saves the state of a run in a folder (RunSpec::save). Each rank saves its part.
class Saving {
 public:
  Saving(Session& session, std::filesystem::path folder) : session_(session), folder_(std::move(folder)) {}

  /// Whether to save after `done` steps.
  bool due(int64_t done) const { return is_due(done, session_.spec().save.every, session_.spec().train); }
  /// Saves the state before step `next_step`, with the data read so far. All ranks call it; when it returns,
  /// all parts exist and the state is valid. Returns the time and, on rank 0, the bytes of all ranks.
  /// `record` is called with this point before the state becomes valid, and returns the record to store with
  /// it; empty: no run continues from this state.
  using Record = std::function<Json(const SavedPoint& saved)>;
  SavedPoint save(int64_t next_step, const DataPosition& read, const Record& record) const {
    const auto start = std::chrono::steady_clock::now();
    const Ranks& ranks = session_.ranks();
    const auto saved = [&](int64_t bytes) {
      return SavedPoint{
          .step = next_step, .seconds = seconds_since(start), .bytes = static_cast<double>(bytes)};
    };
    const auto keep_record = [&](int64_t bytes) {
      if (record) write_record(folder_, next_step, ranks.rank, record(saved(bytes)));
    };
    {
      const EvaluatedParameters evaluated(session_);
      write_state_part(folder_, next_step, ranks.rank, state_to_save(session_, next_step, read));
    }
    if (ranks.rank != 0) keep_record(0);
    // A run may save into two folders after the same step.
    const std::string step = "saved/" + folder_.filename().string() + "/" + std::to_string(next_step);
    if (ranks.size > 1) gather_texts(*session_.store(), ranks, step, "", state_timeout());
    int64_t bytes = 0;
    if (ranks.rank == 0) {
      bytes = bytes_of_state(folder_, next_step, ranks.size);
      keep_record(bytes);
      commit_state(folder_, next_step, ranks.size);
    }
    // No rank continues before the state is valid, so no later failure removes the previous one.
    if (ranks.size > 1) gather_texts(*session_.store(), ranks, step + "/counts", "", state_timeout());
    return saved(bytes);
  }

 private:
  Session& session_;
  std::filesystem::path folder_;
};

volatile std::sig_atomic_t last_stop_signal = 0;  // NOLINT: all that a handler may write to

void note_stop_signal(int signal) { last_stop_signal = signal; }

/// While it lives, SIGINT, SIGTERM, SIGHUP and SIGUSR1 do not end this process; they request a stop at the
/// end of a step. Signals that the parent ignores stay ignored.
class StopRequest {
 public:
  StopRequest() {
    last_stop_signal = 0;
    struct sigaction noting {};
    noting.sa_handler = note_stop_signal;
    noting.sa_flags = SA_RESTART;
    for (size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &noting, nullptr);
    }
  }
  ~StopRequest() {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// The signal that any rank of the run has received; 0 if none. All ranks call it between the same two
  /// steps and get the same answer, because their hosts add up the requests.
  int asked(Session& session) const {
    const int signal = last_stop_signal;
    if (session.ranks().size == 1) return signal;
    // The number of ranks that each signal has reached.
    const auto counted = session.groups().bookkeeping();
    const Tensor flags = at::zeros({static_cast<int64_t>(kSignals.size())}, at::kDouble);
    for (size_t i = 0; i < kSignals.size(); ++i)
      if (kSignals[i] == signal) flags[static_cast<int64_t>(i)] = 1;
    session.mesh().group(session.mesh().all()).all_reduce(flags).wait();
    for (size_t i = 0; i < kSignals.size(); ++i)
      if (flags[static_cast<int64_t>(i)].item<double>() > 0) return kSignals[i];
    return 0;
  }
  /// Ends this process by the signal, as without this object.
  [[noreturn]] static void obey(int signal) {
    std::signal(signal, SIG_DFL);
    ::raise(signal);
    _exit(128 + signal);  // in case the signal is blocked
  }

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
  std::array<struct sigaction, kSignals.size()> before_{};
};

/// The loop over the steps of a run, and the work between two steps.
class Trainer {
 public:
  Trainer(Session& session, const MetricsSink& sink, Interleaving* turns, TrainFiles files, Continuation run)
      : session_(session),
        interleaved_(turns != nullptr),
        files_(std::move(files)),
        record_(sink),
        steps_(session, record_),
        turn_(turns),
        measurement_(session),
        history_(session, std::move(run)),
        end_(session.spec(), steps_.batches().sequences_of_epoch(),
             global_batch(session.spec().train, session.mesh())),
        watch_(session) {}

  RunResult run() {
    const std::string documents = steps_.batches().description();
    if (steps_.batches().leaves_out_many())
      session_.log().warn(documents);
    else if (!documents.empty())
      session_.note(documents);
    history_.begin(record_, measurement_, steps_.batches());
    const TrainSpec& train_spec = session_.spec().train;
    if (end_.steps() < train_spec.warmup + train_spec.steps) record_.report_length(end_.steps());
    auto result = history_.result();
    if (!result)
      result = train();
    else if (session_.ranks().rank == 0)
      record_.add_to(*result);
    if (const std::string why = end_.why_shorter(std::ssize(record_.steps())); !why.empty())
      session_.note(why);
    return *result;
  }

  void trace() {
    const TrainSpec& train = session_.spec().train;
    session_.log().enter_phase("tracing");
    steps_.trace(history_.first_step() + train.warmup + train.steps, files_.trace);
  }

 private:
  RunResult train() {
    prepare();
    StepRange range(session_.spec().train, std::ssize(record_.steps()), end_.steps());
    session_.log().enter_phase("warmup");
    for (int64_t i = range.begin; i < range.end; ++i) {
      if (i == range.measured) {
        steps_.collect(/*wait=*/true);
        session_.log().enter_phase("measuring");
        measurement_.start();
      }
      const bool measured = i >= range.measured;
      if (measured && !turn_.next([this] { return seconds_of_the_last_step(); })) {
        range.end = i;
        measured_all();
        compare_replicas();
        break;
      }
      if (measured) watch_.before(i - range.measured, range.timed());
      const int64_t step = history_.first_step() + i;
      if (i == range.accounted())
        steps_.account(step, turn_.timed());
      else
        steps_.make(step, turn_.timed());
      steps_.collect(/*wait=*/false);
      if (measured) watch_.after(i - range.measured, range.timed());
      after_step(i + 1, range);
    }
    if (!ended_) return result(range);
    record_.add_to(*ended_);
    return *ended_;
  }

  /// Runs of the gate only show whether a technique is correct.
  void prepare() {
    const RunSpec& spec = session_.spec();
    if (spec.purpose != Purpose::measure) return;
    if (spec.validate.every > 0)
      validation_.emplace(session_, [this](int64_t step) { return steps_.data(step); });
    const bool first_round = spec.round == 0;  // of several rounds, the one that samples and saves
    if (first_round && !spec.sample.prompts.empty()) sampler_.emplace(session_);
    const bool keeps_state = first_round && !files_.state.empty();
    if (keeps_state && spec.save.every > 0) saving_.emplace(session_, files_.state);
    if (keeps_state && validation_ && spec.validate.keep_best)
      saving_best_.emplace(session_, files_.state.parent_path() / "best");
    // No run continues from a state that an interleaved run saved.
    if (saving_ && !interleaved_) stop_.emplace();
  }

  void after_step(int64_t done, StepRange& range) {
    if (done == range.end) measured_all();
    const auto due = [&](const auto& what) { return what && (what->due(done) || done == range.end); };
    if (due(validation_) || due(saving_) || done == range.end) compare_replicas();
    if (due(validation_)) {
      between_steps("validating",
                    [&] { record_.add_validation(validation_->point(done, history_.first_step() + done)); });
      if (saving_best_ && RunEnd::improved(record_.validations()))
        // An interrupted run does not continue from this state.
        between_steps("saving the best state", [&] { save(*saving_best_, done, {}); });
      if (done > range.measured && done < range.end && end_.is_over(record_.validations())) {
        session_.note(end_.why_over(record_.validations(), done));
        range.end = done;
        measured_all();
      }
    }
    if (done == range.end && sampler_) between_steps("sampling", [&] { sample_ = sampler_->continued(); });
    if (due(saving_)) save_state(done, range);
    if (stop_ && done < range.end) stop_if_asked(done, range);
  }

  /// All ranks stop after the same step and save the state.
  void stop_if_asked(int64_t done, const StepRange& range) {
    const int signal = stop_->asked(session_);
    if (signal == 0) return;
    if (!saving_->due(done)) {
      compare_replicas();
      save_state(done, range);
    }
    StopRequest::obey(signal);
  }

  void compare_replicas() {
    if (session_.ranks().size > 1) between_steps("comparing replicas", [&] { check_replicas(session_); });
  }

  void save_state(int64_t done, const StepRange& range) {
    between_steps("saving", [&] {
      const auto beside = [&](const SavedPoint& saved) {
        if (done == range.end) ended_ = result(range);
        return history_.beside_state(record_, measurement_, saved, ended_);
      };
      record_.add_saved(save(*saving_, done, interleaved_ ? Saving::Record() : beside));
    });
  }

  SavedPoint save(const Saving& saving, int64_t done, const Saving::Record& record) {
    const int64_t next_step = history_.first_step() + done;
    return saving.save(
        next_step, {.samples = steps_.batches().first_sample(next_step), .order = steps_.batches().order()},
        record);
  }

  double seconds_of_the_last_step() {
    steps_.collect(/*wait=*/true);
    wait_for(session_.device());
    const auto& made = record_.steps();
    return made.empty() ? 0 : made.back().seconds;
  }

  void measured_all() {
    stop_measuring();
    history_.check_that_something_changed(std::ssize(record_.steps()));
    watch_.warn();
    record_.note_skipped_updates(session_.spec().train, session_.log());
    measurement_.warn();
  }

  /// Records the timed steps so far and pauses the measurement.
  void stop_measuring() {
    steps_.collect(/*wait=*/true);
    measurement_.stop();
  }

  /// Runs `act` outside of the time of the steps before and after it.
  void between_steps(const std::string& phase, const std::function<void()>& act) {
    const bool interrupts = measurement_.is_on();
    const std::string before = session_.log().phase();
    interrupts ? stop_measuring() : steps_.collect(/*wait=*/true);
    wait_for(session_.device());
    session_.log().enter_phase(phase);
    act();
    session_.log().enter_phase(before);
    if (interrupts) measurement_.start();
  }

  RunResult result(const StepRange& range) {
    RunResult result;
    record_.add_to(result);
    result.memory = memory();
    result.costs = steps_.costs();
    if (session_.ranks().size > 1) result.collectives = measurement_.collectives(range.timed());
    // Energy is that of the whole device, including the turns of other runs.
    if (turn_.alone()) {
      result.energy_joules = measurement_.joules();
      result.gpu = measurement_.gpu();
    }
    if (saving_best_ && RunEnd::best(record_.validations())) {
      const ValidationPoint& best = record_.validations().at(*RunEnd::best(record_.validations()));
      result.best = {.step = best.step, .loss = best.loss};
    }
    result.sample = sample_;
    result.counters = measurement_.counters(range.timed());
    record_.add_flops(model_flops(session_.model()), result);
    return result;
  }

  Memory memory() const {
    const auto [parameters, gradients, optimizer] = model_state_bytes(session_);
    const int64_t activations = steps_.activations();
    const MemoryPeak& peak = measurement_.peak();
    const auto bytes = [](int64_t count) { return static_cast<double>(count); };
    return {.allocated = peak.allocated + steps_.uncounted_memory(),
            .reserved = peak.reserved,
            .process = measurement_.process_bytes(),
            .parts = {{"parameters", bytes(parameters)},
                      {"gradients", bytes(gradients)},
                      {"optimizer_state", bytes(optimizer)},
                      {"activations", bytes(activations)},
                      {"total", bytes(parameters + gradients + optimizer + activations)}}};
  }

  Session& session_;
  bool interleaved_;
  TrainFiles files_;
  RunRecord record_;
  StepMaker steps_;
  InterleavedSteps turn_;
  Measurement measurement_;
  RunHistory history_;
  RunEnd end_;
  StepWatch watch_;
  std::optional<Validation> validation_;
  std::optional<Saving> saving_, saving_best_;
  std::optional<StopRequest> stop_;  ///< for a run that can continue from its state
  std::optional<Sampler> sampler_;
  std::vector<SampledText> sample_;
  std::optional<RunResult> ended_;  ///< the result stored with the state after the last step
};

/// The event with the seconds of each part of the set-up, and the processor time and page faults so far.
Json setup_event(const PartTimes& times) {
  Json seconds = Json::object();
  for (const auto& [part, spent] : times.seconds()) seconds[part] = spent;
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto in_seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return {{"event", "setup"},
          {"seconds", std::move(seconds)},
          {"user_seconds", in_seconds(used.ru_utime)},
          {"system_seconds", in_seconds(used.ru_stime)},
          {"page_faults", used.ru_minflt}};
}
}  // namespace

RunResult train(Session& session, const MetricsSink& sink, Interleaving* turns, const TrainFiles& files,
                const Continuation& run) {
  PartTimes& times = session.log().setup_times();
  const auto trainer =
      times.time("data", [&] { return std::make_unique<Trainer>(session, sink, turns, files, run); });
  sink(setup_event(times));
  RunResult result = trainer->run();
  if (session.spec().trace && !files.trace.empty()) trainer->trace();
  return result;
}
}  // namespace optrush
