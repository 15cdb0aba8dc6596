#include "launch/fork_server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include "base/log.h"
#include "base/seconds_since.h"
#include "base/text.h"
#include "machine/cores.h"
#include "machine/fork_protocol.h"
#include "optrush/error.h"
#include "process/orphans.h"

namespace optrush {
namespace {
constexpr size_t kLongestAnswer = 4096;
constexpr size_t kMostServers = 3;  // each keeps its libraries in memory

/// Both ends of a connection; the second one blocks.
std::pair<Descriptor, Descriptor> connection() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(ErrorCode::file_access, std::string("cannot create a socket: ") + std::strerror(errno));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// The variables that a server must have when it loads its libraries, or the others.
Environment selected(const Environment& environment, bool late) {
  Environment some;
  std::ranges::copy_if(environment, std::back_inserter(some),
                       [&](const auto& variable) { return is_read_late(variable.first) == late; });
  return some;
}

Json request_of(const Command& command) {
  Json late = Json::object();
  for (const auto& [name, value] : selected(command.environment, true)) late[name] = value;
  return {{"arguments", command.arguments}, {"log", command.log.string()}, {"environment", late}};
}

/// Signals to a number below 2 would reach init, a group, or every process.
std::optional<pid_t> pid_of(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  const auto number = value.get<int64_t>();
  if (number < 2 || number > std::numeric_limits<pid_t>::max()) return std::nullopt;
  return static_cast<pid_t>(number);
}
}  // namespace

Environment worker_environment(const RunSpec& spec, int64_t cores) {
  Environment environment{{"OMP_WAIT_POLICY", "passive"}};
  const int64_t asked = asked_threads(), otherwise = asked > 0 ? asked : cores;
  if (const int64_t threads = spec.threads > 0 ? spec.threads : otherwise; threads > 0)
    for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS"})
      environment.emplace_back(name, std::to_string(threads));
  // Otherwise NCCL's watchdog would write a dump for a minute before it ends a rank that waits without
  // success.
  for (const auto& [name, value] :
       {std::pair("TORCH_NCCL_DUMP_ON_TIMEOUT", "0"), {"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "1000"}})
    if (std::getenv(name) == nullptr) environment.emplace_back(name, value);
  environment.insert(environment.end(), spec.environment.begin(), spec.environment.end());
  return environment;
}

ForkServer::Server ForkServer::started(const Environment& added) const {
  auto [here, there] = connection();
  Server server{.environment = environment_with(added), .channel = Channel(std::move(here), kLongestAnswer)};
  std::vector<std::string> arguments = {worker_.string(), "fork-server"};
  if (use_ == Use::plans) arguments.emplace_back("--plans");
  arguments.insert(arguments.end(), {"--room", std::string(kCommandLineRoom, ' ')});
  try {
    // A command that is started as usual shows why there is no server, so the server's output is not kept.
    server.process = std::make_unique<Process>(Command{.arguments = std::move(arguments),
                                                       .environment = added,
                                                       .log = "/dev/null",
                                                       .input = there.get(),
                                                       .helper = true});
  } catch (const Error&) {
    server.channel.close();
  }
  return server;
}

ForkServer::Server& ForkServer::server_of(const Environment& added) {
  const auto found = std::ranges::find(servers_, environment_with(added), &Server::environment);
  if (found != servers_.end()) {
    std::rotate(found, found + 1, servers_.end());
    return servers_.back();
  }
  if (servers_.size() == kMostServers) servers_.erase(servers_.begin());
  return servers_.emplace_back(started(added));
}

void ForkServer::renew() {
  std::erase_if(servers_, [](const Server& server) { return server.process != nullptr; });
}

ProcessEnd ForkServer::run(const Command& command, const Limits& limits, Interrupts& interrupts) {
  const auto began = std::chrono::steady_clock::now();
  const auto process = start(command, interrupts, limits.timeout_s);
  return run_to_end(*process, began, limits, interrupts);
}

std::unique_ptr<Process> ForkServer::start(const Command& command, Interrupts& interrupts, double timeout_s) {
  const auto began = std::chrono::steady_clock::now();
  BoundedLog log(command.log, kLogLimit);
  OomKills kills = OomKills::read();
  const Environment loaded = selected(command.environment, false);
  const Json request = request_of(command);
  std::optional<pid_t> child;
  {
    const AdoptsOrphans adopts;
    Server& server = server_of(loaded);
    const bool served = server.has_answered;
    child = ask(server, request, began, timeout_s, interrupts);
    if (!child && served && interrupts.signal() == 0) {  // it was ended since then
      server = started(loaded);
      child = ask(server, request, began, timeout_s, interrupts);
    }
  }
  if (!child) return std::make_unique<Process>(command);
  log::debug("forked " + std::to_string(*child) + ": " + join(command.arguments, " "));
  return std::make_unique<Process>(*child, std::move(log), std::move(kills), command.helper);
}

std::optional<pid_t> ForkServer::ask(Server& server, const Json& request, Time began, double timeout_s,
                                     Interrupts& interrupts) {
  if (!server.process) return std::nullopt;
  server.channel.send(request);
  const auto answer = [&]() -> std::optional<Json> {
    try {
      return server.channel.receive();
    } catch (const Error&) {  // no JSON: it is no worker of this version
      return std::nullopt;
    }
  };
  // The field of the next answer; null if there is none.
  const auto wait_for = [&](const char* field) -> Json {
    while (true) {
      if (const auto message = answer()) return message->is_object() ? message->value(field, Json()) : Json();
      const double left = timeout_s - seconds_since(began);
      if (interrupts.poll() != 0 || !server.channel.is_open() || left <= 0) return {};
      interrupts.wait(tick_within(left), {server.channel.descriptor()});
    }
  };
  std::optional<pid_t> child = pid_of(wait_for("pid"));
  if (child && wait_for("begun") == true) {
    server.has_answered = true;
    return child;
  }
  server.process.reset();
  log::debug("the fork server has ended");
  if (!child)
    if (const auto last = answer(); last && last->is_object()) child = pid_of(last->value("pid", Json()));
  if (child) {  // it begins nothing without the server
    kill(*child, SIGKILL);
    waitpid(*child, nullptr, 0);
  }
  return std::nullopt;
}
}  // namespace optrush
