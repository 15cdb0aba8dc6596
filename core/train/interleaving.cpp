#include "train/interleaving.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "machine/environment.h"
#include "machine/socket.h"
#include "optrush/error.h"
#include "optrush/json.h"

namespace optrush {
namespace {
constexpr const char* kVariable = "OPTRUSH_TURNS";

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::internal, "interleaving: " + what,
              std::string("unset ") + kVariable + " to train alone");
}

Descriptor connected_to(const std::string& path) {
  try {
    return connect_to(path);
  } catch (const Error& e) {
    fail(e.message());
  }
}
}  // namespace

Interleaving::Interleaving(const std::string& socket, const Ranks& ranks)
    : socket_(connected_to(socket)), rank_(ranks.rank), ranks_(ranks.size) {}

std::unique_ptr<Interleaving> Interleaving::from_environment(const Ranks& ranks) {
  const std::string path = environment_variable(kVariable);
  return path.empty() ? nullptr : std::make_unique<Interleaving>(path, ranks);
}

Interleaving::Turn Interleaving::next(double seconds) {
  Json message = {{"type", ready_ ? "done" : "ready"}, {"seconds", seconds}};
  if (!ready_) message.update({{"rank", rank_}, {"ranks", ranks_}, {"ends", true}});
  ready_ = true;
  send(message.dump() + "\n");
  const std::string line = receive();
  const Json go = Json::parse(line, nullptr, false);
  const Json type = go.is_object() ? go.value("type", Json()) : Json();
  if (type == "end") return {};
  const Json steps = type == "go" ? go.value("steps", Json()) : Json();
  if (!steps.is_number_integer() || steps.get<int64_t>() < 1)
    fail("the controller sent an unknown message: '" + line + "'");
  return {steps, go.value("alone", false)};
}

void Interleaving::send(const std::string& line) const {
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t n = ::send(socket_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno != EINTR) fail(std::string("the controller has ended: ") + std::strerror(errno));
    if (n > 0) sent += static_cast<size_t>(n);
  }
}

std::string Interleaving::receive() {
  std::array<char, 256> buffer{};
  size_t end = std::string::npos;
  while ((end = arrived_.find('\n')) == std::string::npos) {
    const ssize_t n = recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (n == 0) fail("the controller has ended");
    if (n < 0 && errno != EINTR) fail(std::string("the controller has ended: ") + std::strerror(errno));
    if (n > 0) arrived_.append(buffer.data(), static_cast<size_t>(n));
  }
  std::string line = arrived_.substr(0, end);
  arrived_.erase(0, end + 1);
  return line;
}

bool InterleavedSteps::next(const std::function<double()>& seconds_of_the_last) {
  timed_ = true;
  if (interleaving_ == nullptr || left_-- > 0) return true;
  const auto [steps, alone] = interleaving_->next(seconds_of_the_last());
  alone_ = alone_ || alone;
  left_ = steps - 1;
  timed_ = alone || left_ == 0;
  return steps > 0;
}
}  // namespace optrush
