#include "launch/ledger/ledger.h"

#include <algorithm>

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "launch/ranks/rank.h"
#include "launch/run/result.h"
#include "optrush/error.h"
#include "results/result_text.h"
#include "spec/run_identity.h"
#include "spec/spec_json.h"
#include "spec/state_files.h"

namespace optrush {
namespace fs = std::filesystem;

using Event = JournalEntry::Event;

Outline::Outline(const Expanded& expanded, const std::vector<std::string>& only)
    : variants(expanded.variants), schedule(variants, expanded.experiment, only), plans(variants.size()) {}

// The report's folder.

Ledger::Ledger(const Expanded& expanded, const RunRequest& request)
    : experiment_(expanded.experiment),
      request_(request),
      outline_(expanded, request.only),
      folder_(report_folder(request.reports, experiment_)),
      lock_(lock_folder(folder_)),
      journal_(begun_report(folder_, experiment_, request.resume, notes_)) {
  // A damaged or edited file is not used: this start writes it again.
  const auto read = [&](const char* name) -> Json {
    const fs::path file = folder_ / name;
    return is_there(file) && journal_.agree(file) ? read_json(file) : Json();
  };
  context_ = read("context.json");
  plans_before_ = read("plans.json");
  if (const Json variants = read("variants.json"); !variants.is_null()) {
    variants_before_.emplace();
    for (const Json& variant : variants)
      variants_before_->push_back(variant_from_json(variant, (folder_ / "variants.json").string()));
  }
}

void Ledger::begin_report() {
  if (!is_there(folder_ / "variants.json")) write_variants();
}

void Ledger::write_variants() {
  Json variants = Json::array();
  for (const Variant& variant : outline_.variants) variants.push_back(to_json(variant));
  journal_.write("experiment.json", to_json(experiment_));
  journal_.write("variants.json", variants);
}

void Ledger::describe(Json context) {
  context_ = std::move(context);
  journal_.write("context.json", context_);
  inspected_ = true;
}

std::set<std::string> Ledger::refused_before() const {
  std::set<std::string> rungs;
  if (variants_before_)
    for (const Variant& variant : *variants_before_)
      rungs.insert(variant.passed_over.begin(), variant.passed_over.end());
  return rungs;
}

void Ledger::plan(const NoPlans& failures) {
  // The final variants are known only now: a rung above a refused one has another stack.
  write_variants();
  all_plans_ = plans();
  Json list = Json::array();
  for (const auto& plan : all_plans_) list.push_back(to_json(plan));
  // The rows of variants that are not wanted now need their stored plans.
  const bool any = request_.resume && variants_before_ && !plans_before_.is_null();
  const size_t known = any ? std::min(variants_before_->size(), plans_before_.size()) : 0;
  for (size_t i = 0; i < std::min(known, variants().size()); ++i) {
    const Variant& variant = variants()[i];
    if (all_plans_[i] || schedule().wanted(variant) ||
        spec_sha256((*variants_before_)[i].spec) != spec_sha256(variant.spec))
      continue;
    all_plans_[i] = optional_plan_from_json(plans_before_[i], (folder_ / "plans.json").string());
    list[i] = plans_before_[i];
  }
  read_runs();
  planned_ = true;
  for (const auto& [index, planned] : failures)
    if (variant(index).has_own_runs()) cannot_run(variant(index), planned.failure);
  journal_.write("plans.json", list);
}

/// Reads what earlier starts measured, except for runs that are moved away.
void Ledger::read_runs() {
  std::vector<fs::path> finished;
  for (const fs::path& run : folders_in(folder_ / "runs")) {
    if (is_there(run / "spec.json")) begun_.insert(run.filename());
    if (is_there(run / "result.json")) finished.push_back(run);
  }
  for (StoredRun& run :
       load_runs(finished, journal_, all_plans_, ResultParts::of_report(), /*skip_invalid=*/true))
    runs_.emplace(run.id, std::move(run));
  const auto changed = [&](const fs::path& file) {
    try {
      return is_there(file) && !journal_.agree(file);
    } catch (const Error&) {  // no regular file
      return true;
    }
  };
  std::map<std::string, std::vector<std::string>> moved;  // by the reason; "": edited
  for (const fs::path& run : finished) {
    const std::string id = run.filename();
    const bool edited = !runs_.contains(id) && (changed(run / "result.json") || changed(run / "spec.json"));
    std::string why;
    if (!edited)
      why = why_unrelated(run, variants(), experiment_,
                          [&](const Variant& variant) { return continues(variant); });
    if (!edited && why.empty()) continue;
    archive_run(run);
    runs_.erase(id);
    begun_.erase(id);
    moved[why].push_back(id);
  }
  for (const auto& [why, ids] : moved)
    notes_.push_back((why.empty() ? "these runs are rerun, because their files were changed after they were "
                                    "written; they were moved to replaced/: "
                                  : "these stored runs do not belong to the present experiment (" + why +
                                        "); they were moved to replaced/: ") +
                     join(ids));
  for (auto& [id, run] : runs_) move_late_plan(run, all_plans_);
}

Stored Ledger::stored() const {
  Stored stored{.folder = folder_,
                .experiment = experiment_,
                .variants = variants(),
                .plans = all_plans_,
                .context = context_,
                .runs = {},
                .probes = {}};
  for (const auto& [id, run] : runs_) stored.runs.push_back(run);
  return stored;
}

// Which runs are complete.

/// The stored result of a job if it is valid: the journal has it for this spec, and its files are unchanged.
const RunResult* Ledger::valid(const Job& job, std::string* why_not) const {
  const Journal::Run& known = journal_.of(job.id);
  const auto run = runs_.find(job.id);
  if (known.spec.empty() || run == runs_.end()) return nullptr;
  const std::string changed = known.spec != identity_of(job) ? "its spec has changed"
                              : !known.inputs.empty() && known.inputs != inputs_.sum_of(job.spec)
                                  ? "a file that it reads has changed"
                              : !inputs_.same(run->second.result.plugins) ? "a plugin file has changed"
                                                                          : "";
  if (changed.empty()) return &run->second.result;
  if (why_not != nullptr) *why_not = changed;
  return nullptr;
}

/// A valid result that is final.
const RunResult* Ledger::complete(const Job& job, std::string* why_not) const {
  const RunResult* result = valid(job, why_not);
  if (result == nullptr || result->ok()) return result;
  // The run did not start, or something outside ended it: it continues if possible.
  const bool unfinished = result->cause == Cause::missing ||
                          (result->cause == Cause::lost && saved_record(state_folder(run_folder(job.id)), 0));
  if (!unfinished && !request_.retry) return result;
  if (why_not != nullptr) *why_not = "it ended as '" + std::string(to_string(result->status)) + "'";
  return nullptr;
}

const RunResult* Ledger::accept(const Job& job) {
  std::string why_not;
  const RunResult* result = complete(job, &why_not);
  if (!why_not.empty()) notes_.push_back(job.id + " is rerun: " + why_not);
  if (result != nullptr) settle(job, *result);
  return result;
}

bool Ledger::done(const Job& job) const {
  const auto done = done_.find(job.id);
  if (done == done_.end()) return false;
  // The gate selects its runs by the results of the others, so they may change. Measured runs do not.
  return job.spec.purpose == Purpose::measure || done->second == identity_of(job);
}

std::vector<int64_t> Ledger::begun(int64_t round) const {
  std::vector<int64_t> begun;
  for (const Variant& variant : variants())
    if (variant.has_own_runs() && begun_.contains(schedule().measured(variant, round).id))
      begun.push_back(variant.index);
  return begun;
}

bool Ledger::any_cut() const {
  return std::ranges::any_of(runs_,
                             [](const auto& named) { return named.second.result.cut == "time limit"; });
}

std::string Ledger::change_since_state(const Json& record, const Job& job) const {
  const Json& about = record.at("about");
  if (about.at("spec") != spec_sha256(job.spec))
    if (std::string changed = change_of_spec(record, job, plan_of(job), run_folder(job.id)); !changed.empty())
      return changed;
  const auto plugins =
      record::taken<std::vector<UsedPlugin>>(about.value("plugins", Json::array()), "plugins");
  return about.at("inputs") != sum_of_inputs(job.spec) ? "a file that it reads"
         : !inputs_.same(plugins)                      ? "a plugin file"
                                                       : "";
}

/// Whether the first run of a variant has a state from which it continues, perhaps on another number of
/// ranks.
bool Ledger::continues(const Variant& variant) const {
  const Job job = schedule().measured(variant, 0);
  const auto record = saved_record(state_folder(run_folder(job.id)), 0);
  if (!record || job.external || record->at("result").is_object()) return false;  // no state, or complete
  // Without a plan nothing runs, and a later start may have one.
  return !plan_of(job) || change_since_state(*record, job).empty();
}

const std::map<std::string, Work>& Ledger::later() const {
  if (later_) return *later_;
  later_.emplace();
  auto jobs = schedule().all(plans());
  if (round_) jobs.insert(jobs.end(), round_->jobs.begin(), round_->jobs.end());
  for (const Job& job : jobs)
    if (!under_way_.contains(job.id) && !done(job)) later_->emplace(job.id, work_of(job.spec));
  return *later_;
}

// Rounds.

void Ledger::begin_round(Round round) {
  if (!round.note.empty()) notes_.push_back(round.note);
  round_ = std::move(round);
  if (later_)  // with an open number of rounds, its runs are known from now on
    for (const Job& job : round_->jobs)
      if (!done(job)) later_->emplace(job.id, work_of(job.spec));
  int64_t steps = 0;
  for (const Job& job : round_->jobs) {
    const RunResult* result = accept(job);
    if (result == nullptr)
      round_->any = true;
    else if (result->ok() && can_be_cut(experiment_, job, request_.remote_ranks != nullptr))
      steps = std::max(steps, std::ssize(result->steps) - job.spec.train.warmup);
  }
  // The other runs of an interrupted round make as many steps as the stored ones.
  if (round_->paced && steps > 0) round_->steps = steps;
}

void Ledger::limit_steps(int64_t steps, bool tight) {
  round_->steps = steps;
  if (!tight) return;
  round_->limit.steps = steps;
  round_->limit.tight = true;
}

void Ledger::begin_interleaving(const std::vector<Job>& jobs) {
  int64_t again = 0;
  for (const Job& job : jobs) {
    if (done(job)) {
      archive_run(run_folder(job.id));
      done_.erase(job.id);
      if (later_) later_->emplace(job.id, work_of(job.spec));
      ++again;
    }
    runs_.erase(job.id);
  }
  for (const Job& job : jobs) {
    clear_run(run_folder(job.id));
    store_job(run_folder(job.id), job);
  }
  if (again > 0)
    notes_.push_back(
        std::to_string(again) + " completed runs of round " + std::to_string(round_->number + 1) +
        " are rerun, because the runs of a round must be interleaved; their old results are in replaced/");
}

void Ledger::end_round(std::optional<double> seconds) {
  round_->ended = true;
  round_->seconds = seconds;
}

// Runs.

void Ledger::start(const Job& job) {
  const fs::path folder = run_folder(job.id);
  clear_attempt(folder);
  runs_.erase(job.id);
  journal_.append({.event = Event::started,
                   .run = job.id,
                   .spec_sha256 = identity_of(job),
                   .sha256 = store_job(folder, job),
                   .inputs = sum_of_inputs(job.spec),
                   .from_step = job.from_step});
  under_way_.insert(job.id);
  if (later_) later_->erase(job.id);
}

void Ledger::restart(const Job& job, const RunResult& fault, int64_t made, int64_t kept) {
  journal_.append({.event = Event::restarted,
                   .run = job.id,
                   .status = fault.status,
                   .reason = fault.reason,
                   .rank = fault.rank,
                   .made = made,
                   .kept = kept});
}

void Ledger::finish(const Job& job, RunResult result) {
  if (!restarts(job).empty()) result.notes.push_back(note_of(restarts(job)));
  const std::string sum = store_result(run_folder(job.id), job, result);
  journal_.append({.event = Event::finished,
                   .run = job.id,
                   .spec_sha256 = identity_of(job),
                   .status = result.status,
                   .sha256 = sum,
                   .reason = result.reason,
                   .code = result.code,
                   .rank = result.rank});
  keep(job, result);
  settle(job, result);
}

/// Keeps the parts of a result that decisions need, as if it was read.
void Ledger::keep(const Job& job, RunResult result) {
  leave_out(result, ResultParts::of_report());
  runs_.insert_or_assign(job.id, StoredRun{job.id, job.spec, std::move(result)});
}

/// Draws the consequences from the end of a run.
void Ledger::settle(const Job& job, const RunResult& result) {
  done_[job.id] = identity_of(job);
  under_way_.erase(job.id);
  if (later_) later_->erase(job.id);
  note_peak(job, result, measured_memory_);
  if (result.ok()) return;
  if (result.status != Status::skipped) all_ok_ = false;
  if (job.spec.purpose != Purpose::measure || job.spec.round > 0) return;
  if (schedule().open() || experiment_.rounds > 1)
    notes_.push_back(job.spec.rung + " is left out of the remaining rounds");
  drop(variant(job.spec.variant), "round 1 ended as '" + std::string(to_string(result.status)) + "'");
}

void Ledger::abandon(const Job& job) {
  fs::remove_all(run_folder(job.id) / "result.json");
  under_way_.erase(job.id);
  if (later_) later_->emplace(job.id, work_of(job.spec));
}

/// The plan of this variant failed, so it has no further runs. Its earlier results are kept.
void Ledger::cannot_run(const Variant& variant, const BadEnd& end) {
  if (end.status != Status::skipped) all_ok_ = false;
  const RunResult* before = valid(schedule().measured(variant, 0), nullptr);
  if (before != nullptr && before->ok()) return forget_plans(variant);  // other rounds are still missing
  store_unstarted(variant, 0, end);
  drop(variant, "its plan failed");
}

/// Removes the remaining runs of this variant and of variants that share its runs.
void Ledger::forget_plans(const Variant& variant) {
  later_.reset();
  for (const auto& other : variants())
    if (other.runs_of() == variant.index) outline_.plans.at(static_cast<size_t>(other.index)).reset();
}

/// Removes the remaining runs of this variant. Missing rounds get the reason as result.
void Ledger::drop(const Variant& variant, const std::string& why) {
  forget_plans(variant);
  for (int64_t round = 1; round < rounds_of(experiment_).value_or(1); ++round)
    store_unstarted(variant, round, {Status::skipped, "not run: " + why});
  log::debug("dropped " + variant.name + ": " + why);
}

void Ledger::store_unstarted(const Variant& variant, int64_t round, const BadEnd& end) {
  const Job job = schedule().measured(variant, round);
  if (is_stored(job)) return;  // earlier measurements are kept
  clear_run(run_folder(job.id));
  store_result(run_folder(job.id), job, RunResult(end));
  keep(job, RunResult(end));
  journal_.append({.event = Event::skipped, .run = job.id, .reason = end.reason});
}
}  // namespace optrush
