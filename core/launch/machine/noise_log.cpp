#include "launch/machine/noise_log.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/files.h"
#include "base/seconds_since.h"
#include "machine/cores.h"
#include "results/noise_line.h"

namespace optrush {
namespace {
using Clock = std::chrono::steady_clock;

/// Larger than the caches of a core, like tensors.
constexpr size_t kWords = size_t{1} << 20;  // 8 MiB
constexpr int64_t kWordsOfUnit = 1024;

/// Reads, mixes and writes one word after another.
uint64_t work(std::vector<uint64_t>& memory, size_t& at, int64_t units) {
  uint64_t state = 88172645463325252U;
  for (int64_t i = 0; i < units * kWordsOfUnit; ++i) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    memory[at] += state;
    at = (at + 1) % kWords;
  }
  return state ^ memory[at];
}

/// Runs pieces on one core until the time is over. The sum of their results keeps the compiler from removing
/// the work.
std::vector<double> pieces_of_core(int64_t units, double seconds, std::atomic<uint64_t>& sum) {
  std::vector<uint64_t> memory(kWords, 1);
  size_t at = 0;
  std::vector<double> pieces;
  const auto start = Clock::now();
  do {
    const auto before = Clock::now();
    sum += work(memory, at, units);
    pieces.push_back(seconds_since(before) * 1e9 / static_cast<double>(units));
  } while (seconds_since(start) < seconds);
  return pieces;
}
}  // namespace

NoiseProbe::NoiseProbe(int64_t threads, double piece_s) : threads_(std::max<int64_t>(1, threads)) {
  std::atomic<uint64_t> sum = 0;
  const auto pieces = pieces_of_core(units_, piece_s, sum);
  const double fastest = std::ranges::min(pieces) * 1e-9;
  units_ = std::clamp<int64_t>(std::llround(piece_s / fastest), 1, 1000000);
}

std::vector<double> NoiseProbe::measure(double seconds) const {
  std::atomic<uint64_t> sum = 0;
  std::vector<std::vector<double>> found(static_cast<size_t>(threads_));
  {
    std::vector<std::jthread> threads;
    for (auto& pieces : found)
      threads.emplace_back([&, this] { pieces = pieces_of_core(units_, seconds, sum); });
  }
  std::vector<double> all;
  for (const auto& pieces : found) all.insert(all.end(), pieces.begin(), pieces.end());
  return all;
}

NoiseLog::NoiseLog(std::filesystem::path file, double seconds) : file_(std::move(file)), seconds_(seconds) {
  close_torn_line(file_);
}

void NoiseLog::look(int64_t rounds) {
  const Json before = read_machine_counters();
  if (!probe_) probe_.emplace(usable_cores());
  const auto pieces = probe_->measure(seconds_);
  const Json line = to_json(noise_line(rounds, pieces, before, read_machine_counters()));
  append_line(file_, line.dump());
}
}  // namespace optrush
