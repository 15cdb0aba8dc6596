#include "ledger.h"

#include <execinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

#include "device_memory.h"
#include "ranks_calls.h"
#include "settings.h"

namespace fake_cuda {
thread_local cudaError_t last_error = cudaSuccess;

namespace {
struct State {
  std::recursive_mutex mutex;
  Counts counts;
  std::map<std::string, uint64_t> faults;
};
// Never destroyed, because other libraries call until the process ends.
State& state() {
  static auto* const state = new State;
  return *state;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 32) out += c;
  }
  return out + "\"";
}

std::string table(const std::map<std::string, uint64_t>& numbers) {
  std::string out = "{";
  for (const auto& [name, number] : numbers)
    out += (out.size() > 1 ? ", " : "") + quoted(name) + ": " + std::to_string(number);
  return out + "}";
}

std::string report() {
  const Counts& c = state().counts;
  std::ostringstream out;
  const auto traffic = [&](const char* name, const Traffic& t) {
    out << ", \"" << name << "\": {\"copies\": " << t.copies << ", \"bytes\": " << t.bytes << "}";
  };
  out << "{\"device\": " << quoted(kDeviceName) << ", \"pid\": " << getpid()
      << ", \"launches\": " << c.launches << ", \"library_calls\": " << c.library_calls
      << ", \"memsets\": " << c.memsets << ", \"waits\": " << c.waits
      << ", \"allocations\": " << c.allocations << ", \"frees\": " << c.frees
      << ", \"replays\": " << c.replays << ", \"peak_bytes\": " << peak_bytes();
  traffic("host_to_device", c.host_to_device);
  traffic("device_to_host", c.device_to_host);
  traffic("device_to_device", c.device_to_device);
  out << ", \"faults\": " << table(state().faults) << ", \"calls\": " << table(c.calls)
      << ", \"kernels\": " << table(c.kernels) << "}\n";
  return out.str();
}

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string line{std::istreambuf_iterator<char>(file), {}};
  std::replace(line.begin(), line.end(), '\0', ' ');
  return line;
}

/// Each process appends a line of JSON. A process with faults exits with code 86, so it does not look
/// successful.
void at_end() {
  if (!Settings::in_use()) return;
  const Lock lock(mutex());
  end_calls_of_ranks();
  const Settings& settings = Settings::get();
  if (!settings.report.empty())
    if (FILE* file = std::fopen(settings.report.c_str(), "a")) {
      const std::string text = report();
      std::setvbuf(file, nullptr, _IONBF,
                   0);  // one write keeps lines of concurrent processes whole
      std::fwrite(text.data(), 1, text.size(), file);
      std::fclose(file);
    }
  if (settings.strict && !state().faults.empty()) {
    std::fflush(nullptr);
    _exit(86);
  }
}
struct AtEnd {
  AtEnd() {
    std::atexit(at_end);
    std::at_quick_exit(at_end);
  }
} const at_process_end;
}  // namespace

std::recursive_mutex& mutex() { return state().mutex; }
Counts& counts() { return state().counts; }
const std::map<std::string, uint64_t>& faults() { return state().faults; }

void forget_counts_and_faults() {
  const Lock lock(mutex());
  state().counts = {};
  state().faults.clear();
  forget_calls_of_ranks();
}

cudaError_t fail(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t fault(cudaError_t error, const std::string& where, const std::string& why) {
  const Lock lock(mutex());
  const std::string text = where + ": " + why;
  if (++state().faults[text] == 1) std::fprintf(stderr, "fake_cuda: fault: %s\n", text.c_str());
  trace("fault " + text);
  return fail(error);
}

void trace(const std::string& line) {
  static FILE* const file = [] {
    std::string name = Settings::get().trace;
    if (const size_t at = name.find("%p"); at != std::string::npos)
      name.replace(at, 2, std::to_string(getpid()));
    FILE* opened = name.empty() ? nullptr : std::fopen(name.c_str(), "a");
    if (opened) std::fprintf(opened, "process %s\n", command_line().c_str());
    return opened;
  }();
  if (!file) return;
  std::fprintf(file, "%s\n", line.c_str());
  std::fflush(file);
}

void missing(const char* name) {
  std::fprintf(stderr, "fake_cuda: %s is not written. Write it in tests/fake_cuda, or call something else.\n",
               name);
  void* frames[40];
  backtrace_symbols_fd(frames, backtrace(frames, 40), STDERR_FILENO);
  std::abort();
}
}  // namespace fake_cuda
