#include "launch/conductor.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <set>

#include "base/files.h"
#include "base/log.h"
#include "base/spec_json.h"
#include "base/suggest.h"
#include "launch/context.h"
#include "launch/folder.h"
#include "launch/journal.h"
#include "launch/live_run.h"
#include "launch/next_round.h"
#include "launch/noise_log.h"
#include "launch/planner.h"
#include "launch/result.h"
#include "launch/run_starter.h"
#include "launch/schedule.h"
#include "launch/temporary_folder.h"
#include "launch/turn_choice.h"
#include "launch/turn_round.h"
#include "optrush/error.h"
#include "report/analysis.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
void check_worker(const fs::path& worker) {
  if (access(worker.c_str(), X_OK) != 0)
    throw Error("'" + worker.string() + "' is not there or can't be executed",
                "build it: ./optrush setup, or the target optrush-worker");
}

int64_t gpus_in(const Json& context) {
  const auto gpus = context.find("gpus");
  return gpus != context.end() && gpus->is_array() ? static_cast<int64_t>(gpus->size()) : 0;
}

/// What tells how far a run is.
fs::path metrics_file(const fs::path& run_folder, const Job& job) {
  const bool several = job.spec.train.world_size > 1 && !job.external;
  return (several ? rank_folder(run_folder, 0) : run_folder) / "metrics.jsonl";
}

/// Of runs that take turns with each other: no other group of this report has it.
std::string group_id(int64_t round) {
  static constexpr const char* kDigits = "0123456789abcdef";
  std::random_device random;
  std::string id = "r" + std::to_string(round + 1) + "-";
  for (int i = 0; i < 12; ++i) id += kDigits[random() % 16];
  return id;
}

class Conductor : private TurnRound::Host {
 public:
  Conductor(const Experiment& experiment, const RunRequest& request, Progress& progress)
      : experiment_(experiment),
        request_(request),
        progress_(progress),
        variants_(expand(experiment)),
        schedule_(variants_, rounds_of(experiment), request.only),
        folder_(report_folder(request.reports, experiment)),
        lock_(folder_),
        plans_(variants_.size()),
        journal_(begun_report(folder_, experiment, request.resume)),
        starter_(request.worker, request.followers, folder_ / "starts", interrupts_),
        noise_(folder_ / "noise.jsonl", request.probe_s) {}

  RunOutcome conduct() {
    if (!request_.only.empty()) progress_.note("--only: " + join(schedule_.only()) + ", and the base");
    // First of all: a resume on another machine is refused before it changes anything.
    const bool described = describe();
    if (!fs::exists(folder_ / "variants.json")) write_variants();
    if (described && plan()) measure();
    if (interrupts_.signal() == 0)
      journal_.ended();
    else
      journal_.interrupted(describe_signal(interrupts_.signal()));
    return {folder_, all_ok_, interrupts_.signal()};
  }

 private:
  void write_variants() const {
    write_json(folder_ / "experiment.json", to_json(experiment_));
    write_json(folder_ / "variants.json", all_as_json(variants_));
  }

  static Json all_as_json(const std::vector<Variant>& variants) {
    Json list = Json::array();
    for (const auto& variant : variants) list.push_back(to_json(variant));
    return list;
  }

  void set_aside() {
    const auto strangers = set_aside_strangers(folder_, variants_, rounds_of(experiment_));
    if (strangers.empty()) return;
    progress_.note(
        std::to_string(strangers.size()) +
            " stored runs do not belong to the experiment as it is now and were moved to replaced/: " +
            join(strangers),
        Colour::yellow);
  }

  /// context.json, once for a report: its runs are of one machine.
  bool describe() {
    const fs::path file = folder_ / "context.json";
    const bool known = fs::exists(file);
    progress_.stage("looking at the machine");
    auto here = describe_machine(experiment_, request_.worker, known, interrupts_);
    if (!here) return false;
    starter_.machine_has(gpus_in(*here));
    if (request_.followers != nullptr) (*here)["hosts"] = request_.followers->hosts();
    if (!known) {
      write_json(file, *here);
      return true;
    }
    Json there = read_json(file);
    if (const auto differ = difference_of_machines(there, *here); !differ.empty())
      throw Error("the runs in '" + folder_.string() + "' were made on another machine: " + differ,
                  "give another --label, and compare the two reports");
    for (const char* key : {"script", "script_sha256"}) there[key] = (*here)[key];
    write_json(file, there);
    return true;
  }

  bool plan() {
    std::set<std::string> refused;
    std::vector<std::pair<int64_t, BadEnd>> failures;
    for (size_t i = 0; i < variants_.size(); ++i) {
      const Variant variant = variants_[i];
      if (!schedule_.wanted(variant)) continue;
      progress_.stage("planning " + std::to_string(variant.index + 1) + "/" +
                      std::to_string(variants_.size()) + ": " + variant.name);
      auto planned =
          plan_variant(variant, request_.worker, {.timeout_s = request_.plan_timeout_s}, interrupts_);
      if (!planned) return false;
      plan_of(variant.index) = planned->plan;
      if (!planned->plan.is_null()) continue;
      progress_.note(variant.name + ": " + planned->failure.status + ", " + planned->failure.reason,
                     Colour::red);
      failures.emplace_back(variant.index, planned->failure);
      if (!planned->refused || variant.group != "ladder") continue;
      refused.insert(variant.name);
      variants_ = expand(experiment_, refused);
    }
    // What belongs to the experiment is known only now: a rung above a refused one has another stack.
    write_variants();
    set_aside();
    for (const auto& [index, failure] : failures) {
      const Variant& variant = variants_.at(static_cast<size_t>(index));
      store_unstarted(variant, 0, failure);
      all_ok_ = false;
      drop(variant, "its plan failed");
    }
    Json list = Json::array();
    for (const auto& plan : plans_) list.push_back(plan);
    write_json(folder_ / "plans.json", list);
    return true;
  }

  void measure() {
    if (request_.resume) tell_done();
    const auto start = std::chrono::steady_clock::now();
    run_round(0, schedule_.round(0, plans_));
    check_gate(/*last=*/!schedule_.open() && experiment_.rounds == 1);
    if (schedule_.open())
      repeat_until(*experiment_.until, start);
    else
      for (int64_t round = 1; round < experiment_.rounds; ++round)
        run_round(round, schedule_.round(round, plans_));
    check_gate(/*last=*/true);
    execute(schedule_.drift(plans_));
  }

  /// Rounds until every interval is narrow or the time is over. What was stored of rounds counts, and what an
  /// interrupted one lacks is made up.
  void repeat_until(const Until& until, std::chrono::steady_clock::time_point start) {
    int64_t round = 1;
    for (auto begun = begun_in(round); !begun.empty(); begun = begun_in(++round))
      run_round(round, schedule_.begin_round(round, begun, plans_));
    double slower = 1;  // than the sum of what the runs measured of themselves
    while (interrupts_.signal() == 0) {
      const Analysis now = analyze(load_report(folder_));
      RoundState state{until, until.at_most_s - seconds_since(start), round, run_seconds(now), pairs_of(now)};
      for (auto& [variant, seconds] : state.seconds) seconds *= slower;
      if (const auto base = state.seconds.find(0); base != state.seconds.end())
        state.seconds_left -= base->second;  // which runs once more at the end
      const auto chosen = next_round(state);
      if (chosen.empty()) break;
      const auto before = std::chrono::steady_clock::now();
      run_round(round, schedule_.begin_round(round, chosen, plans_));
      ++round;
      double expected = 0;
      for (const int64_t variant : chosen) expected += state.seconds.at(variant) / slower;
      slower = std::max(1.0, seconds_since(before) / expected);
    }
  }

  /// With a look at the machine's noise before the first and after each, where something is left to run.
  void run_round(int64_t round, const std::vector<Job>& jobs) {
    const bool any = std::ranges::any_of(jobs, [&](const Job& job) {
      return !request_.resume || !result_if_done(run_folder(job.id), job, journal_);
    });
    if (any && !noise_.begun()) look_at_noise(round);
    execute_round(jobs, round);
    if (any) look_at_noise(round + 1);
  }

  void look_at_noise(int64_t rounds) {
    if (noise_.off() || interrupts_.signal() != 0) return;
    progress_.stage("looking how quiet the machine is");
    noise_.look(rounds);
  }

  static double seconds_since(std::chrono::steady_clock::time_point then) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
  }

  /// Variants of which a run of this round was started, now or before.
  std::vector<int64_t> begun_in(int64_t round) const {
    std::vector<int64_t> begun;
    for (const auto& variant : variants_)
      if (fs::exists(run_folder(schedule_.measured(variant, round).id) / "spec.json"))
        begun.push_back(variant.index);
    return begun;
  }

  void tell_done() {
    auto jobs = schedule_.all(plans_);
    if (schedule_.open())
      for (int64_t round = 1; !begun_in(round).empty(); ++round)
        for (const int64_t variant : begun_in(round))
          jobs.push_back(schedule_.measured(variants_.at(static_cast<size_t>(variant)), round));
    const auto done = std::ranges::count_if(
        jobs, [&](const Job& job) { return result_if_done(run_folder(job.id), job, journal_).has_value(); });
    progress_.note(std::to_string(done) + " of " + std::to_string(jobs.size()) + " runs are done already");
  }

  /// `last`: no other round will say whether a reference repeats its own bits.
  void check_gate(bool last) {
    while (interrupts_.signal() == 0 && execute(next_of_gate(last))) continue;
  }

  /// The extra runs that the report, as it would be now, misses for the first of its rows. What they show
  /// decides whether that row is a reference for the next one, which may then need others.
  std::vector<Job> next_of_gate(bool last) const {
    const Stored stored = load_report(folder_);
    std::vector<Json> usable = stored.plans;
    for (const auto& row : analyze(stored).rows) {
      Json& plan = usable.at(static_cast<size_t>(row.variant));
      if ((row.ok() || row.status == Status::broken) && !plan.is_null()) {
        const Variant& variant = variants_.at(static_cast<size_t>(row.variant));
        auto jobs = schedule_.gate(usable, variant);
        if (last && row.verdict.undecided)
          std::ranges::move(schedule_.repeat(usable, variant), std::back_inserter(jobs));
        std::erase_if(jobs, [&](const Job& job) { return is_executed(job); });
        if (!jobs.empty()) return jobs;
      }
      if (!row.ok()) plan = nullptr;
    }
    return {};
  }

  bool is_executed(const Job& job) const { return executed_.contains(identity_of(job)); }

  /// Those that can take turns do so, and the others run one after the other.
  void execute_round(std::vector<Job> jobs, int64_t round) {
    std::vector<Job> fit = jobs;
    std::erase_if(fit, [&](const Job& job) { return alone_.contains(job.spec.variant); });
    fit = chosen_for_turns(fit, plans_, experiment_.turns, request_.followers != nullptr);
    if (fit.size() > 1) execute_in_turns(fit, round);
    std::erase_if(jobs, [&](const Job& job) { return is_executed(job); });
    execute(jobs);
  }

  void execute_in_turns(std::vector<Job> jobs, int64_t round) {
    std::vector<std::pair<Job, Json>> done;
    for (const auto& job : jobs)
      if (auto result = stored_result(job)) done.emplace_back(job, std::move(*result));
    // Steps are compared within one group, so a group that lacks a run is run again; a bad end stays one.
    const bool whole = done.size() == jobs.size();
    for (const auto& [job, result] : done) {
      if (!whole && result.at("status") == "ok") continue;
      take(job, result);
      std::erase_if(jobs, [&, &ended = job](const Job& other) { return other.id == ended.id; });
    }
    if (jobs.size() < 2) return;
    for (const auto& job : jobs) clear_run(run_folder(job.id));
    const TemporaryFolder sockets;
    const auto again = TurnRound(jobs, group_id(round), sockets.path(), *this, interrupts_).conduct();
    for (const auto& job : again) {
      progress_.note(job.spec.rung + " was out of memory beside the others, and is run alone",
                     Colour::yellow);
      alone_.insert(job.spec.variant);
    }
  }

  std::unique_ptr<LiveRun> start(const Job& job, const fs::path& socket) override {
    return start(job, "in turns", {{"OPTRUSH_TURNS", socket.string()}});
  }
  void has_turn(const Job& job) override { progress_.go_on(job); }
  void tick() override { progress_.tick(); }
  void ended(const Job& job, const Json& result) override {
    write_json(run_folder(job.id) / "result.json", result);
    finished(job, result);
    take(job, result);
  }
  void abandoned(const Job& job) override {
    fs::remove(run_folder(job.id) / "result.json");
    progress_.abandon(job);
  }

  /// Whether there was any.
  bool execute(const std::vector<Job>& jobs) {
    for (const auto& job : jobs) {
      if (interrupts_.signal() != 0) break;
      execute(job);
    }
    return !jobs.empty();
  }

  void execute(const Job& job) {
    auto result = stored_result(job);
    if (!result) result = run(job);
    if (result) take(job, *result);
  }

  /// Of a run that need not be made again.
  std::optional<Json> stored_result(const Job& job) {
    if (!request_.resume) return std::nullopt;
    std::string changed;
    auto result = result_if_done(run_folder(job.id), job, journal_, &changed);
    if (!changed.empty()) progress_.note(job.id + " is run again: " + changed, Colour::yellow);
    return result;
  }

  /// What follows from how a run ended.
  void take(const Job& job, const Json& result) {
    executed_.insert(identity_of(job));
    const std::string status = result.at("status");
    if (status == "ok") return;
    if (status != "skipped") all_ok_ = false;
    if (job.spec.purpose != "measure" || job.spec.round > 0) return;
    if (schedule_.open() || experiment_.rounds > 1)
      progress_.note(job.spec.rung + " is not run again in the other rounds", Colour::yellow);
    drop(variants_.at(static_cast<size_t>(job.spec.variant)), "round 1 ended as '" + status + "'");
  }

  /// By itself. None where a signal came first.
  std::optional<Json> run(const Job& job) {
    const auto live = start(job, "", {});
    const auto tick = [this] { progress_.tick(); };
    const auto result = live ? finish(*live, job.spec.timeout_s, interrupts_, tick) : std::nullopt;
    if (result)
      finished(job, *result);
    else
      progress_.abandon(job);
    return result;
  }

  void finished(const Job& job, const Json& result) {
    journal_.finished(job.id, identity_of(job), result.at("status"));
    progress_.end(job, result);
  }

  /// Null where a signal came first. `how` is for the progress line.
  std::unique_ptr<LiveRun> start(const Job& job, const std::string& how, const Environment& added) {
    const fs::path folder = run_folder(job.id);
    clear_run(folder);
    write_json(folder / "spec.json", to_json(job.spec));
    if (job.external) write_json(folder / "external.json", to_json(*job.external));
    journal_.started(job.id, identity_of(job));
    std::vector<Job> later = schedule_.all(plans_);
    std::erase_if(later, [&](const Job& other) { return other.id == job.id || is_executed(other); });
    const Progress::Position position{
        executed_.size() + progress_.begun() + 1, executed_.size() + 1 + later.size(),
        schedule_.describe(job.spec) + (how.empty() ? "" : " " + how), schedule_.open()};
    progress_.begin(job, position, metrics_file(folder, job), std::move(later));
    tell_of_followers();
    return starter_.start(job, folder, added);
  }

  void tell_of_followers() {
    if (request_.followers == nullptr) return;
    for (const auto& note : request_.followers->take_notes()) progress_.note(note, Colour::red);
  }

  /// No more runs of this variant; the rounds that it misses say why.
  void drop(const Variant& variant, const std::string& why) {
    plan_of(variant.index) = nullptr;
    for (int64_t round = 1; round < rounds_of(experiment_).value_or(1); ++round)
      store_unstarted(variant, round, {"skipped", "not run: " + why});
    log::debug("dropped " + variant.name + ": " + why);
  }

  void store_unstarted(const Variant& variant, int64_t round, const BadEnd& end) {
    const Job job = schedule_.measured(variant, round);
    optrush::store_unstarted(run_folder(job.id), job, end.status, end.reason);
    journal_.skipped(job.id, end.reason);
  }

  fs::path run_folder(const std::string& id) const { return folder_ / "runs" / id; }
  Json& plan_of(int64_t variant) { return plans_.at(static_cast<size_t>(variant)); }

  const Experiment& experiment_;
  const RunRequest& request_;
  Progress& progress_;
  Interrupts interrupts_;
  std::vector<Variant> variants_;  ///< final once they are planned
  Schedule schedule_;
  const fs::path folder_;
  const FolderLock lock_;
  std::vector<Json> plans_;  ///< null: no plan, or dropped
  Journal journal_;
  RunStarter starter_;
  NoiseLog noise_;
  std::set<std::string> executed_;  ///< specs of the runs that have a result
  std::set<int64_t> alone_;         ///< variants that were out of memory beside others
  bool all_ok_ = true;
};
}  // namespace

RunOutcome run_experiment(const Experiment& experiment, const RunRequest& request, Progress& progress) {
  check_worker(request.worker);
  return Conductor(experiment, request, progress).conduct();
}
}  // namespace optrush
