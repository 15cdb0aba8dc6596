#include "ranks_calls.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <utility>

#include "device_memory.h"
#include "ledger.h"
#include "settings.h"

namespace fake_cuda {
namespace {
std::string of_communicator(const std::string& communicator) { return " of communicator " + communicator; }
std::string to_hex(const std::string& bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string out;
  for (const char byte : bytes) {
    out += kDigits[static_cast<unsigned char>(byte) >> 4U];
    out += kDigits[static_cast<unsigned char>(byte) & 15U];
  }
  return out.empty() ? "-" : out;
}
std::string from_hex(const std::string& digits) {
  std::string out;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    out += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return out;
}
/// NCCL compares the devices of ranks with the same host.
std::string host_id() {
  if (const char* given = std::getenv("NCCL_HOSTID")) return given;
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}
}  // namespace

std::string Call::text() const {
  std::string out = kind + " " + std::to_string(count) + " " + type;
  if (reduction != "-") out += " " + reduction;
  if (peer >= 0)
    out += (kind == "Send" ? " to rank " : kind == "Recv" ? " from rank " : " root ") + std::to_string(peer);
  return out;
}

RanksCalls::RanksCalls() : log_([this](const std::string& line, bool own) { read_line(line, own); }) {}
namespace {
bool in_use = false;
}  // namespace
RanksCalls& RanksCalls::get() {
  static auto* const calls = new RanksCalls;
  in_use = true;
  return *calls;
}
void forget_calls_of_ranks() {
  if (in_use) RanksCalls::get().forget();
}
void end_calls_of_ranks() {
  if (in_use) RanksCalls::get().end();
}

void RanksCalls::join(const std::string& communicator, int size, int rank, int device) {
  std::ostringstream line;
  line << "member " << communicator << ' ' << size << ' ' << rank << ' ' << getpid() << ' ' << device << ' '
       << to_hex(host_id());
  log_.append(line.str());
}

bool RanksCalls::all_have_come(const std::string& communicator) {
  log_.read();
  const Communicator& c = communicators_[communicator];
  return static_cast<int>(c.members.size()) == c.size;
}

void RanksCalls::split(const std::string& communicator, uint64_t number, int rank, int color, int key) {
  std::ostringstream line;
  line << "split " << communicator << ' ' << number << ' ' << rank << ' ' << color << ' ' << key;
  log_.append(line.str());
}

bool RanksCalls::all_said_their_split(const std::string& communicator, uint64_t number) {
  log_.read();
  const Communicator& c = communicators_[communicator];
  for (int rank = 0; rank < c.size; ++rank)
    if (!c.splits.contains({number, rank})) return false;
  return true;
}

std::vector<int> RanksCalls::parts_of_split(const std::string& communicator, uint64_t number, int color) {
  std::vector<std::pair<int, int>> parts;  // key, rank
  for (const auto& [who, wish] : communicators_[communicator].splits)
    if (who.first == number && wish.first == color) parts.emplace_back(wish.second, who.second);
  std::ranges::sort(parts);
  std::vector<int> ranks;
  for (const auto& [key, rank] : parts) ranks.push_back(rank);
  return ranks;
}

CallId RanksCalls::call(const std::string& communicator, int rank, const Call& call,
                        const std::vector<CallId>& after, Values values) {
  std::ostringstream line;
  line << "call " << communicator << ' ' << rank << ' ' << call.kind << ' ' << call.count << ' ' << call.type
       << ' ' << call.reduction << ' ' << call.peer << ' ' << to_hex(values.sent);
  for (const CallId id : after) line << ' ' << id;
  log_.append(line.str());
  const CallId made = calls_.size() - 1;
  calls_[made].values.arrives_at = values.arrives_at;
  say_given_up();
  return made;
}

bool RanksCalls::is_done(CallId id) {
  if (settle(id)) return true;
  log_.read();
  if (settle(id)) return true;
  const Issued& issued = calls_[id];
  if (!is_late(issued.since)) return false;
  const auto [there, complete] = meeting(issued);
  fault(cudaErrorLaunchTimeout, "nccl" + issued.call.kind,
        described(id) + " waits for more than " + std::to_string(Settings::get().nccl_seconds) + " s. " +
            (complete ? "Each rank has called it, and one waits for other work before it."
                      : missing_ranks(issued.communicator)));
  give_up(issued.communicator);
  say_given_up();
  return true;
}

void RanksCalls::abort(const std::string& communicator) {
  Communicator& c = communicators_[communicator];
  for (size_t id = 0; id < calls_.size(); ++id)
    if (calls_[id].communicator == communicator && !settle(id)) c.aborted = true;
}

void RanksCalls::forget() {
  log_.read();
  for (auto& [name, c] : communicators_) c.given_up = true;
}

bool RanksCalls::has_lost_a_rank(const std::string& communicator) {
  log_.read();
  return std::ranges::any_of(communicators_[communicator].members,
                             [&](const auto& member) { return has_ended(member.second.process); });
}

std::string RanksCalls::missing_ranks(const std::string& communicator) {
  const Communicator& c = communicators_[communicator];
  std::string out;
  for (int rank = 0; rank < c.size; ++rank) {
    out += (rank > 0 ? "; " : "") + std::string("rank ") + std::to_string(rank);
    const auto member = c.members.find(rank);
    if (member == c.members.end()) {
      out += " has not come";
      continue;
    }
    const auto last = std::find_if(calls_.rbegin(), calls_.rend(), [&](const Issued& issued) {
      return issued.communicator == communicator && issued.rank == rank;
    });
    out += last == calls_.rend() ? " has called nothing" : " called " + last->call.text() + " last";
    if (has_ended(member->second.process)) out += " and has ended";
  }
  return out;
}

void RanksCalls::end() {
  log_.append("end " + std::to_string(getpid()));
  for (const auto& [name, c] : communicators_) {
    const bool all =
        static_cast<int>(c.members.size()) == c.size &&
        std::ranges::all_of(c.members, [&](const auto& m) { return ended_.contains(m.second.process); });
    if (!all || c.given_up || c.aborted) continue;
    for (size_t id = 0; id < calls_.size(); ++id)
      if (calls_[id].communicator == name && !meeting(calls_[id]).second) {
        fault(cudaErrorLaunchFailure, "nccl" + calls_[id].call.kind,
              described(id) + " was never joined. " + missing_ranks(name));
        break;
      }
  }
}

void RanksCalls::read_line(const std::string& line, bool own) {
  std::istringstream text(line);
  std::string what;
  text >> what;
  if (what == "member") {
    add_member(text, own);
  } else if (what == "call") {
    add_call(text, own);
  } else if (what == "split") {
    std::string name;
    uint64_t number = 0;
    int rank = 0, color = 0, key = 0;
    text >> name >> number >> rank >> color >> key;
    communicators_[name].splits[{number, rank}] = {color, key};
  } else if (what == "given-up") {
    std::string name;
    text >> name;
    communicators_[name].given_up = true;
  } else if (what == "end") {
    int process = 0;
    text >> process;
    ended_.insert(process);
  }
}

void RanksCalls::add_member(std::istream& text, bool own) {
  std::string name;
  int size = 0, rank = 0;
  Member member;
  text >> name >> size >> rank >> member.process >> member.device >> member.host;
  Communicator& c = communicators_[name];
  if (own) {
    const auto wrong = [&](const std::string& why) {
      fault(cudaErrorInvalidValue, "ncclCommInitRank",
            "rank " + std::to_string(rank) + of_communicator(name) + ": " + why);
    };
    if (c.size != 0 && c.size != size)
      wrong("it says " + std::to_string(size) + " ranks, another one " + std::to_string(c.size));
    if (c.members.contains(rank)) wrong("this rank has come already");
    for (const auto& [other, there] : c.members)
      if (there.device == member.device && there.host == member.host)
        wrong("rank " + std::to_string(other) + " has the same device");
  }
  c.size = size;
  c.members[rank] = member;
  ended_.erase(member.process);  // process ids are reused
}

void RanksCalls::add_call(std::istream& text, bool own) {
  Issued issued;
  text >> issued.communicator >> issued.rank >> issued.call.kind >> issued.call.count >> issued.call.type >>
      issued.call.reduction >> issued.call.peer;
  std::string sent;
  text >> sent;
  issued.values.sent = from_hex(sent);
  for (CallId id = 0; text >> id;) issued.after.push_back(id);
  issued.since = std::chrono::steady_clock::now();
  Communicator& c = communicators_[issued.communicator];
  std::vector<CallId>& sequence = issued.call.kind == "Send"   ? c.sends[{issued.rank, issued.call.peer}]
                                  : issued.call.kind == "Recv" ? c.receives[{issued.call.peer, issued.rank}]
                                                               : c.collectives[issued.rank];
  issued.number = sequence.size();
  const CallId id = calls_.size();
  sequence.push_back(id);
  calls_.push_back(std::move(issued));
  if (!own || c.given_up) return;
  compare(id);
  find_deadlock(id);
}

/// The later call is compared with the earlier one, so each difference is found once.
void RanksCalls::compare(CallId id) {
  const Issued& mine = calls_[id];
  for (const CallId other_id : meeting(mine).first) {
    const Issued& other = calls_[other_id];
    const bool fits = mine.call.between_two()
                          ? mine.call.count == other.call.count && mine.call.type == other.call.type
                          : mine.call == other.call;
    if (fits) continue;
    fault(cudaErrorInvalidValue, "nccl" + mine.call.kind,
          "ranks differ: " + described(id) + ", " + described(other_id));
    give_up(mine.communicator);
    return;
  }
}

/// Finds calls that wait for each other in a cycle.
void RanksCalls::find_deadlock(CallId id) {
  std::vector<CallId> path;  // each waits for the next
  std::set<CallId> seen;
  const std::function<bool(CallId)> circle = [&](CallId at) {
    if (calls_[at].done || communicators_[calls_[at].communicator].given_up) return false;
    for (const CallId there : meeting(calls_[at]).first)
      for (const CallId before : calls_[there].after) {
        const auto [others, complete] = meeting(calls_[before]);
        if (std::ranges::find(others, id) != others.end()) {
          path = {before, there};
          return true;
        }
        if (!seen.insert(others.front()).second || !circle(before)) continue;
        path.insert(path.begin(), {before, there});
        return true;
      }
    return false;
  };
  if (!circle(id)) return;
  std::string text;
  for (size_t i = 0; i < path.size(); i += 2)
    text += (i > 0 ? "; " : "") + std::string("rank ") + std::to_string(calls_[path[i]].rank) + ": " +
            described(path[i]) + " before " + described(path[i + 1]);
  fault(cudaErrorLaunchTimeout, "nccl" + calls_[id].call.kind, "deadlock by order: " + text);
  give_up(calls_[id].communicator);
}

bool RanksCalls::settle(CallId id) {
  Issued& issued = calls_[id];
  const Communicator& c = communicators_[issued.communicator];
  if (issued.done || c.given_up || c.aborted) return true;
  const auto [there, complete] = meeting(issued);
  if (!complete) return false;
  for (const CallId member : there)
    for (const CallId before : calls_[member].after)
      if (!settle(before)) return false;
  for (const CallId member : there) {
    calls_[member].done = true;
    if (calls_[member].values.arrives_at != 0) deliver(member, there);
  }
  return true;
}

/// Delivers the values that others sent to a call of this process.
void RanksCalls::deliver(CallId id, const std::vector<CallId>& meeting) const {
  const Call& call = calls_[id].call;
  std::string arrived;
  for (const CallId from : meeting) {
    const Issued& other = calls_[from];
    const bool sends = call.kind == "AllGather" || (call.kind == "Broadcast" && other.rank == call.peer) ||
                       (call.kind == "Recv" && other.call.kind == "Send");
    const bool part = call.kind == "AlltoAll";
    if ((sends || part) && other.values.sent.empty()) return;
    if (sends) arrived += other.values.sent;
    if (!part) continue;
    const size_t bytes = other.values.sent.size() / meeting.size();
    arrived += other.values.sent.substr(bytes * static_cast<size_t>(calls_[id].rank), bytes);
  }
  if (!arrived.empty()) write_shadow(calls_[id].values.arrives_at, arrived.data(), arrived.size());
}

std::pair<std::vector<CallId>, bool> RanksCalls::meeting(const Issued& issued) const {
  const Communicator& c = communicators_.at(issued.communicator);
  std::vector<CallId> there;
  const auto add = [&](const auto& sequences, const auto& key) {
    const auto it = sequences.find(key);
    if (it != sequences.end() && it->second.size() > issued.number)
      there.push_back(it->second[issued.number]);
  };
  if (!issued.call.between_two()) {
    for (int rank = 0; rank < c.size; ++rank) add(c.collectives, rank);
    return {there, static_cast<int>(there.size()) == c.size};
  }
  const std::pair<int, int> way = issued.call.kind == "Send" ? std::pair(issued.rank, issued.call.peer)
                                                             : std::pair(issued.call.peer, issued.rank);
  add(c.sends, way);
  add(c.receives, way);
  return {there, there.size() == 2};
}

std::string RanksCalls::described(CallId id) const {
  const Issued& issued = calls_[id];
  return issued.call.text() + " (call " + std::to_string(issued.number) +
         of_communicator(issued.communicator) + ", rank " + std::to_string(issued.rank) + ")";
}

/// Counts its calls as done, so that the program continues and ends with the fault.
void RanksCalls::give_up(const std::string& communicator) {
  if (std::exchange(communicators_[communicator].given_up, true)) return;
  given_up_.push_back(communicator);
}
void RanksCalls::say_given_up() {
  for (const std::string& communicator : std::exchange(given_up_, {}))
    log_.append("given-up " + communicator);
}

bool RanksCalls::has_ended(int process) const {
  if (ended_.contains(process)) return true;
  std::ifstream status("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  if (!std::getline(status, text)) return true;
  const size_t name_ends = text.rfind(") ");
  return name_ends != std::string::npos && (text[name_ends + 2] == 'Z' || text[name_ends + 2] == 'X');
}

bool RanksCalls::is_late(std::chrono::steady_clock::time_point since) const {
  return std::chrono::steady_clock::now() - since > std::chrono::seconds(Settings::get().nccl_seconds);
}
}  // namespace fake_cuda
