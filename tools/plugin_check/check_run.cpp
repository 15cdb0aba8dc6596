#include "plugin_check/check_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>

#include "base/files.h"
#include "base/seconds_since.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "launch/run/result.h"
#include "optrush/error.h"
#include "process/process.h"
#include "results/worker_answer.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
using Clock = std::chrono::steady_clock;
constexpr double kListLimit = 120, kCaseLimit = 120, kCompiledLimit = 900;

/// Reads new lines of a file to which another process appends.
class Tail {
 public:
  explicit Tail(fs::path file) : file_(std::move(file)) {}
  std::vector<Json> lines() {
    std::ifstream in(file_, std::ios::binary);
    if (!in) return {};
    in.seekg(static_cast<std::streamoff>(read_));
    std::vector<Json> lines;
    for (std::string line; std::getline(in, line) && !in.eof();) {
      read_ += line.size() + 1;
      lines.push_back(parse_json(line, file_.string()));
    }
    return lines;
  }

 private:
  fs::path file_;
  size_t read_ = 0;
};

/// Results of an earlier check by identity. An incomplete last line is ignored and closed, so that the next
/// one starts anew.
std::map<std::string, CaseEnd> known_ends(const fs::path& file) {
  std::map<std::string, CaseEnd> known;
  const auto entries = read_json_lines(file);
  close_torn_line(file);
  for (const Json& entry : entries) {
    if (!entry.contains("end") || !entry.value("identity", Json()).is_string()) continue;
    try {
      known[entry["identity"]] = case_end_from_json(entry["end"]);
    } catch (const Error&) {  // a user or another build wrote the line
    }
  }
  return known;
}

class Check {
 public:
  Check(const CheckSettings& settings, Progress& progress) : settings_(settings), progress_(progress) {}

  CheckOutcome run() {
    list();
    take_known();
    while (!pending_.empty() && interrupts_.signal() == 0 && time_left() > 0) run_some();
    outcome_.signal = interrupts_.signal();
    outcome_.seconds = seconds_since(start_);
    return std::move(outcome_);
  }

 private:
  double time_left() const { return settings_.for_s - seconds_since(start_); }

  void list() {
    progress_.stage("listing the cases");
    const fs::path out = folder_.path() / "list.json", log = folder_.path() / "log.txt";
    Command command{{settings_.worker, "check-list", "--out", out}, {}, log};
    command.arguments.insert(command.arguments.end(), settings_.selection.begin(), settings_.selection.end());
    const ProcessEnd end = run_process(command, {.timeout_s = kListLimit}, interrupts_);
    if (end.kind == ProcessEnd::Kind::interrupted) return;
    const bool exited = end.kind == ProcessEnd::Kind::exited, misused = exited && end.code == 2;
    const auto refuse = [&](const std::string& reason, ErrorCode kind = ErrorCode::crashed) {
      if (misused) throw UsageError(kind == ErrorCode::crashed ? ErrorCode::usage : kind, reason);
      throw Error(kind, reason.empty() ? "the worker ended without a message" : reason);
    };
    if (!is_there(out)) refuse(log_tail(log));
    WorkerAnswer answer = read_answer(out);
    if (answer.failure) refuse(answer.failure->reason, code_of(*answer.failure));
    if (!exited || end.code != 0) refuse(log_tail(log));
    list_ = std::move(answer.asked);
    outcome_.device = list_.at("device");
    outcome_.machine = list_.at("name");
    outcome_.unusable = list_.at("unusable");
    if (list_.at("cases").empty())
      throw UsageError(ErrorCode::unknown_name, "no case matches",
                       "choose another plugin (see optrush plugins) or kind");
    for (const Json& each : list_.at("cases")) {
      pending_.push_back(outcome_.cases.size());
      outcome_.cases.push_back(
          {.id = each.at("id"), .kind = each.at("kind"), .subjects = each.at("subjects")});
    }
  }

  void take_known() {
    if (settings_.resume) {
      const auto known = known_ends(settings_.journal);
      std::erase_if(pending_, [&](size_t index) {
        const auto found = known.find(identity_of(index));
        if (found == known.end()) return false;
        ++outcome_.resumed;
        outcome_.cases.at(index).end = found->second;
        return true;
      });
    } else {
      std::error_code none;
      fs::remove(settings_.journal, none);
    }
    if (settings_.journal.has_parent_path()) fs::create_directories(settings_.journal.parent_path());
  }

  std::string identity_of(size_t index) const { return list_.at("cases").at(index).at("identity"); }

  /// Records the result of a case.
  void finish(size_t index, CaseEnd end) {
    CheckedCase& checked = outcome_.cases.at(index);
    checked.end = std::move(end);
    const Json line = {{"case", checked.id}, {"identity", identity_of(index)}, {"end", to_json(checked.end)}};
    append_line(settings_.journal, line.dump(-1, ' ', true, Json::error_handler_t::replace));
    if (checked.status() == CaseStatus::failed)
      progress_.note("failed  " + checked.id + "\n        " + first_line(checked.end.detail), Colour::red);
    std::erase(pending_, index);
  }

  double limit_of(size_t index) const {
    if (settings_.limit_s > 0) return settings_.limit_s;
    return outcome_.cases.at(index).kind == "compiled" ? kCompiledLimit : kCaseLimit;
  }

  void show(size_t index, Clock::time_point begun) {
    const auto failed = std::ranges::count(outcome_.cases, CaseStatus::failed, &CheckedCase::status);
    std::string line = "[" + std::to_string(outcome_.cases.size() - pending_.size() + 1) + "/" +
                       std::to_string(outcome_.cases.size()) + "] " + outcome_.cases.at(index).id;
    if (seconds_since(begun) >= 2) line += ", " + clock_time(seconds_since(begun));
    if (failed > 0) line += ", " + std::to_string(failed) + " failed";
    if (std::isfinite(settings_.for_s)) line += ", " + clock_time(std::max(0.0, time_left())) + " left";
    progress_.stage(line);
  }

  /// Runs a worker process from the first open case to the end of the list or of the process.
  void run_some() {
    const fs::path cases = folder_.path() / "cases.json", journal = folder_.path() / "journal.jsonl",
                   log = folder_.path() / "log.txt";
    Json some = {{"device", list_.at("device")}, {"cases", Json::array()}};
    for (const size_t index : pending_) some["cases"].push_back(list_.at("cases").at(index));
    write_json(cases, some);
    fs::remove(journal);
    Tail tail(journal);
    const size_t before = pending_.size();
    std::optional<size_t> current;
    Clock::time_point begun = Clock::now();
    const auto follow = [&] {
      for (const Json& line : tail.lines()) {
        if (line.contains("begin")) {
          current = pending_.front();
          begun = Clock::now();
        } else {
          finish(current.value(), case_end_from_json(line.at("end")));
          current.reset();
        }
      }
      if (current) show(*current, begun);
    };

    const Command command{{settings_.worker, "check-run", "--cases", cases, "--journal", journal},
                          {{"OMP_WAIT_POLICY", "passive"}},
                          log};
    Process process(command);
    std::optional<ProcessEnd> end;
    while (!(end = process.poll())) {
      follow();
      if (interrupts_.poll() != 0 || time_left() <= 0) return;
      if (current && seconds_since(begun) > limit_of(*current)) {
        finish(*current, {CaseStatus::failed, "timeout: no end within " + clock_time(limit_of(*current)),
                          ErrorCode::timeout, seconds_since(begun)});
        return;
      }
      interrupts_.wait(std::chrono::milliseconds(100));
    }
    follow();
    // A case that a signal to the whole check ended has not failed.
    if (current && was_interrupt(*end, interrupts_)) return;
    if (current) {
      const BadEnd bad = describe_bad_end(*end, {});
      finish(*current,
             {CaseStatus::failed,
              std::string(to_string(bad.status)) + ": " + bad.reason + last_lines("its log", log_tail(log)),
              code_of(bad), seconds_since(begun)});
    }
    if (was_interrupt(*end, interrupts_)) return;
    if (pending_.size() == before)
      throw Error(ErrorCode::crashed, "no case could be started; output of the worker:\n" + log_tail(log));
  }

  const CheckSettings& settings_;
  Progress& progress_;
  Interrupts interrupts_;
  const TemporaryFolder folder_;
  const Clock::time_point start_ = Clock::now();
  Json list_;
  std::vector<size_t> pending_;  ///< indices of cases without a result, in order
  CheckOutcome outcome_;
};
}  // namespace

CheckOutcome run_checks(const CheckSettings& settings, Progress& progress) {
  return Check(settings, progress).run();
}
}  // namespace optrush
