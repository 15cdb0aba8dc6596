#include "launch/follow.h"

#include <chrono>
#include <memory>

#include "base/cores.h"
#include "base/files.h"
#include "base/spec_json.h"
#include "launch/channel.h"
#include "launch/control.h"
#include "launch/socket.h"
#include "launch/temporary_folder.h"
#include "optrush/error.h"
#include "report/read_fields.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
constexpr size_t kMostBytesOfAFile = 64U << 20;
constexpr milliseconds kPeriod{20};
constexpr double kConnectLimit = 5;

class Follower {
 public:
  Follower(const Launched& here, const std::string& script_sha256, fs::path worker)
      : here_(here), hello_(hello_of(here, script_sha256)), worker_(std::move(worker)) {}

  int follow() {
    connect();
    channel_.send(to_json(hello_));
    while (!done_ && interrupts_.signal() == 0) {
      while (const auto message = receive()) take(*message);
      check_rank_0();
      if (rank_) tell_end();
      if (!done_) interrupts_.wait(kPeriod);
    }
    rank_.reset();  // its group ends with it
    return interrupts_.signal() == 0 ? 0 : 128 + interrupts_.signal();
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& cure) const {
    throw Error(rank_name(here_.rank, hello_.host) + ": " + what, cure);
  }
  bool is_late() const { return Clock::now() - start_ > std::chrono::duration<double>(join_timeout_s()); }

  void connect() {
    std::string problem;
    while (interrupts_.signal() == 0) {
      Descriptor socket = connect_to(here_.address, here_.port, kConnectLimit, problem);
      if (socket.get() >= 0) {
        channel_ = Channel(std::move(socket), kMostBytesOfAFile);
        return;
      }
      if (is_late())
        fail("there is no rank 0 at " + control_address(here_) + ": " + problem, advice_on_joining(here_));
      interrupts_.wait(milliseconds(100));
    }
  }

  std::optional<Json> receive() {
    try {
      return channel_.receive();
    } catch (const Error& e) {
      fail("what answers at " + control_address(here_) + " is no rank 0: " + e.message(),
           advice_on_joining(here_));
    }
  }

  void take(const Json& message) try {
    const std::string type = message.at("type");
    if (type == "refused")
      fail("rank 0 refused it: " + message.at("reason").get<std::string>(), cure_of_refusal());
    if (type == "welcome") joined_ = true;
    if (type == "start") start(message);
    if (type == "terminate" && rank_) rank_->terminate();
    if (type == "kill" && rank_) rank_->kill();
    if (type == "done") done_ = true;
  } catch (const Json::exception& e) {
    fail(std::string("rank 0 sent what is no message: ") + e.what(), "");
  }

  static std::string cure_of_refusal() {
    return "give every rank the same script, the same optrush and the same number of ranks";
  }

  void check_rank_0() const {
    if (done_ || interrupts_.signal() != 0) return;
    if (!channel_.is_open())
      fail("the connection to rank 0 at " + control_address(here_) + " was closed",
           "see what rank 0 said last");
    if (!joined_ && is_late())
      fail("rank 0 at " + control_address(here_) + " did not answer", advice_on_joining(here_));
  }

  void start(const Json& message) {
    rank_.reset();
    run_ = required<int64_t>(message, "run");
    folder_.emplace();
    try {
      const RunSpec spec = run_spec_from_json(message.at("spec"), "rank 0");
      const fs::path file = folder_->path() / "spec.json";
      write_json(file, to_json(spec));
      const auto local_size = required<int64_t>(message, "local_size");
      const int64_t cores = share_of_cores(local_size, usable_cores(), cores_of_parent());
      const RankPlace place{here_.rank, here_.local_rank, local_size, cores};
      const RankFiles files{file, folder_->path() / "out", required<std::string>(message, "state"),
                            optional_field<int64_t>(message, "from_step")};
      rank_ = std::make_unique<LocalRank>(worker_, files, message.at("store"), place, spec, Environment());
    } catch (const Error& e) {
      send_end(
          {.result = {{"schema_version", 1}, {"status", "failed"}, {"reason", e.what()}, {"cause", "own"}}});
    }
  }

  void tell_end() {
    if (const auto end = rank_->poll()) {
      send_end(*end);
      rank_.reset();
      folder_.reset();
    }
  }

  void send_end(const RankEnd& end) {
    Json message = to_json(end);
    message["run"] = run_;
    channel_.send(message);
  }

  const Launched& here_;
  const Hello hello_;
  const fs::path worker_;
  Interrupts interrupts_;
  Channel channel_{Descriptor(), kMostBytesOfAFile};
  Clock::time_point start_ = Clock::now();
  bool joined_ = false, done_ = false;
  int64_t run_ = 0;
  std::optional<TemporaryFolder> folder_;  ///< of the present run
  std::unique_ptr<LocalRank> rank_;
};
}  // namespace

int follow(const Launched& here, const std::string& script_sha256, const fs::path& worker) {
  return Follower(here, script_sha256, worker).follow();
}
}  // namespace optrush
