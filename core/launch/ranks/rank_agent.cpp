
#include "base/files.h"
#include "base/seconds_since.h"
#include "base/temporary_folder.h"
#include "launch/ranks/remote_ranks.h"
#include "machine/cores.h"
#include "machine/socket.h"
#include "optrush/error.h"
#include "process/terminal.h"
#include "spec/read_fields.h"
#include "spec/spec_json.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
constexpr size_t kMostBytesOfAFile = 64U << 20;
constexpr milliseconds kPeriod{20};
constexpr double kConnectLimit = 5;
constexpr double kAnswerLimit = 5;  // seconds; the peer may be another program if the job has other ports
constexpr double kBetweenReports = 0.25;  // seconds between reports about a worker
// seconds for rank 0 to end this process, after a signal and the time to save a state
constexpr double kTimeToBeEnded = 15;

class RankAgent {
 public:
  RankAgent(const Launched& here, const std::string& script_sha256, fs::path worker, const JobSecret& secret)
      : here_(here), hello_(hello_of(here, script_sha256)), worker_(std::move(worker)), secret_(secret) {}

  int run() try {
    while (!closing_) {
      if (!joined_ && !channel_.is_open()) connect();
      while (const auto message = receive()) handle(*message);
      check_rank_0();
      if (rank_) report_rank();
      if (interrupts_.poll() != 0) stop();
      // A second signal ends this process immediately.
      if (!closing_ && interrupts_.wait(kPeriod, {channel_.descriptor()}) && signal_reported_)
        leave("it received a second signal");
    }
    rank_.reset();  // its process group ends with it
    remove_abandoned_folders();
    if (closing_->code != 0)
      Terminal::of(2).write("optrush: " + rank_name(here_.rank, hello_.host) + " ends with exit code " +
                            std::to_string(closing_->code) + ": " + closing_->reason + "\n");
    return closing_->code;
  } catch (const std::exception& e) {
    channel_.send(to_json(ClosingMessage{1, e.what()}, "leave"));
    throw;
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& cure) const {
    throw Error(ErrorCode::rank_lost, rank_name(here_.rank, hello_.host) + ": " + what, cure);
  }
  bool is_late() const { return seconds_since(start_) > join_timeout_s(); }
  std::string address_of_rank_0() const {
    return here_.address + ":" + std::to_string(here_.ports.at(port_));
  }

  /// Connects to the next port of the job with a listener. Returns early after a signal.
  void connect() {
    std::string problem;
    trying_ports_ = false;
    while (interrupts_.signal() == 0) {
      for (size_t tries = 0; tries < here_.ports.size(); ++tries) {
        port_ = (port_ + 1) % here_.ports.size();
        Descriptor socket = connect_to(here_.address, here_.ports[port_], kConnectLimit, problem);
        if (socket.get() < 0) continue;
        channel_ = Channel(std::move(socket), kMostBytesOfAFile, Handshake(Handshake::End::other, secret_));
        channel_.send(to_json(hello_));
        asked_ = Clock::now();
        return;
      }
      if (is_late())
        fail("there is no rank 0 at " + address_of_rank_0() + ": " + (why_not_.empty() ? problem : why_not_),
             advice_on_joining(here_));
      interrupts_.wait(milliseconds(100));
    }
  }

  /// The listener is not rank 0 of this job, or too busy with other connections: tries the next port. Returns
  /// false if the job has no other port or the time is over.
  bool tries_next_port(const std::string& why) {
    const bool may_be_busy = !channel_.is_open() && !channel_.is_trusted();
    if (joined_ || (here_.ports.size() == 1 && !may_be_busy) || is_late()) return false;
    why_not_ = why;
    channel_.close();
    return trying_ports_ = true;
  }

  std::optional<Json> receive() {
    try {
      return channel_.receive();
    } catch (const WrongSecret& e) {
      if (here_.ports.size() > 1 && tries_next_port(e.message() + "; " + e.cure())) return std::nullopt;
      fail("the program at " + address_of_rank_0() + " is not rank 0 of this job: " + e.message(), e.cure());
    } catch (const Error& e) {
      if (here_.ports.size() > 1 && tries_next_port("another program answers there")) return std::nullopt;
      fail("a program other than rank 0 answers at " + address_of_rank_0() + ": " + e.message(),
           advice_on_joining(here_));
    }
  }

  void handle(const Json& message) try {
    const std::string type = message.at("type");
    if (type == "refused") refused(message);
    if (type == "welcome") joined_ = true;
    if (type == "start") start(message);
    if (type == "terminate" && rank_) rank_->terminate();
    if (type == "kill" && rank_) rank_->kill();
    if (type == "done") closing_ = closing_message_from_json(message);
  } catch (const Json::exception& e) {
    fail(std::string("rank 0 sent an invalid message: ") + e.what(), "");
  }

  void refused(const Json& message) {
    const auto reason = required<std::string>(message, "reason");
    if (optional_field<bool>(message, "other_job").value_or(false) && tries_next_port(reason)) return;
    fail("rank 0 refused this rank: " + reason,
         "start every rank with the same script, optrush version and number of ranks");
  }

  void check_rank_0() {
    if (closing_ || trying_ports_) return;
    if (interrupts_.signal() != 0) {
      if (!channel_.is_open()) leave("rank 0 did not answer");
      return;
    }
    if (!joined_ && (!channel_.is_open() || seconds_since(asked_) > kAnswerLimit) &&
        tries_next_port("the program that listens there does not answer"))
      return;
    if (!channel_.is_open()) {
      // The signal that ended rank 0 may reach this process next.
      if (was_interrupt({.kind = ProcessEnd::Kind::signalled, .signal = SIGKILL}, interrupts_))
        return leave("rank 0 has ended");
      fail("the connection to rank 0 at " + address_of_rank_0() + " was closed", "read the output of rank 0");
    }
    if (!joined_ && is_late())
      fail("rank 0 at " + address_of_rank_0() + " did not answer", advice_on_joining(here_));
  }

  /// Reports the signal to rank 0, which ends the worker like the others.
  void stop() {
    if (!joined_) return leave("nothing was started");
    if (!signal_reported_) {
      channel_.send({{"type", "signal"}, {"number", interrupts_.signal()}});
      signal_reported_ = Clock::now();
    }
    if (seconds_since(*signal_reported_) > save_timeout_s() + kTimeToBeEnded)
      leave("rank 0 did not end the job");
  }

  /// Ends this process after a signal.
  void leave(const std::string& why) {
    if (closing_) return;
    closing_ = {128 + interrupts_.signal(), "interrupted by " + interrupts_.describe() + "; " + why};
    channel_.send(to_json(*closing_, "leave"));
  }

  void start(const Json& message) {
    rank_.reset();
    run_ = required<int64_t>(message, "run");
    seen_ = {};
    folder_.emplace();
    try {
      const RunSpec spec = run_spec_from_json(message.at("spec"), "rank 0");
      const fs::path file = folder_->path() / "spec.json";
      write_json(file, to_json(spec));
      const auto local_size = required<int64_t>(message, "local_size");
      const RankSetup setup{.rank = here_.rank,
                            .local_rank = here_.local_rank,
                            .local_size = local_size,
                            .cores = share_of_cores(local_size, usable_cores(), cores_of_parent()),
                            .store = message.at("store"),
                            .spec = file,
                            .folder = folder_->path() / "out",
                            .state = required<std::string>(message, "state"),
                            .from_step = optional_field<int64_t>(message, "from_step")};
      const Command command = rank_command(worker_, setup, spec, {});
      rank_ = std::make_unique<LocalRank>(setup.rank, setup.folder, std::make_unique<Process>(command));
    } catch (const Error& e) {
      RankEnd end{.result = RunResult(failed(e, e.what()))};
      end.result->cause = Cause::own;
      report(end);
    }
  }

  void report_rank() {
    if (const auto end = rank_->poll()) {
      report(*end);
      rank_.reset();
      folder_.reset();
    } else if (seconds_since(last_report_) > kBetweenReports) {
      last_report_ = Clock::now();
      Seen seen = rank_->seen();
      if (seen == seen_) return;
      seen_ = std::move(seen);
      report(seen_);
    }
  }

  template <class T>
  void report(const T& what) {
    Json message = to_json(what);
    message["run"] = run_;
    channel_.send(message);
  }

  const Launched& here_;
  const Hello hello_;
  const fs::path worker_;
  const JobSecret& secret_;
  size_t port_ = here_.ports.size() - 1;  ///< index of the present port
  std::string why_not_;                   ///< why the last port that answered does not fit
  Interrupts interrupts_;
  Channel channel_{Descriptor(), kMostBytesOfAFile};
  Clock::time_point start_ = Clock::now(), asked_, last_report_;
  bool joined_ = false, trying_ports_ = false;  ///< trying_ports_: searching for another port than the last
  std::optional<Clock::time_point> signal_reported_;
  std::optional<ClosingMessage> closing_;
  int64_t run_ = 0;
  Seen seen_;                              ///< last report to rank 0
  std::optional<TemporaryFolder> folder_;  ///< files of the present run
  std::unique_ptr<LocalRank> rank_;
};
}  // namespace

int run_rank_agent(const Launched& here, const std::string& script_sha256, const fs::path& worker,
                   const JobSecret& secret) {
  return RankAgent(here, script_sha256, worker, secret).run();
}
}  // namespace optrush
