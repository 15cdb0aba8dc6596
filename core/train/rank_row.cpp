#include "train/measurement.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "distributed/rendezvous.h"
#include "machine/environment.h"

namespace optrush {
namespace {
std::optional<double> named(const auto& values, const char* name) {
  for (const auto& [key, value] : values)
    if (key == name) return value;
  return std::nullopt;
}

RankResult row_of(const RunResult& result, const Session& session, const std::string& device) {
  const double waited = named(result.phases, "communication").value_or(0);
  double sent = 0;
  for (const Collective& collective : result.collectives) sent += collective.sent_bytes.value_or(0);
  return {.rank = session.ranks().rank,
          .host = host_name(),
          .device = device,
          .step_seconds = result.step_seconds,
          .busy_seconds = result.step_seconds.value_or(0) - waited,
          .exposed_seconds = waited,
          .peak_allocated = result.memory.allocated,
          .peak_reserved = result.memory.reserved,
          .process = result.memory.process,
          .parts = named(result.memory.parts, "total"),
          .sent_bytes = sent};
}

/// The sum of a part of each rank; none if a rank does not know it.
std::optional<double> sum_of(const std::vector<RunResult>& ranks, const auto& part) {
  double sum = 0;
  for (const RunResult& rank : ranks) {
    const std::optional<double> own = std::invoke(part, rank);
    if (!own) return std::nullopt;
    sum += *own;
  }
  return sum;
}

/// Means over the ranks; a member that a rank does not know is not known.
std::optional<GpuUse> mean_of_gpus(const std::vector<RunResult>& ranks) {
  GpuUse mean;
  for (const auto member : GpuUse::members()) {
    const auto sum =
        sum_of(ranks, [&](const RunResult& rank) { return rank.gpu ? (*rank.gpu).*member : std::nullopt; });
    if (sum) mean.*member = *sum / static_cast<double>(ranks.size());
  }
  return mean.is_known() ? std::optional(mean) : std::nullopt;
}
}  // namespace

void add_ranks(RunResult& result, Session& session, const std::string& device) {
  if (session.ranks().size == 1) return;
  RunResult mine;
  mine.ranks = {row_of(result, session, device)};
  mine.hfu_flops = result.hfu_flops;
  mine.energy_joules = result.energy_joules;
  mine.gpu = result.gpu;
  mine.counters = result.counters;
  mine.warnings = session.log().warnings();
  const auto texts = gather_texts(*session.store(), session.ranks(), "rank_row", to_json(mine).dump());
  if (session.ranks().rank != 0) return;
  std::vector<RunResult> results;
  for (const auto& text : texts)
    results.push_back(run_result_from_json(Json::parse(text), "a rank's result"));
  // Each rank counts only its own operations, divided by all tokens, and the energy of its device.
  result.hfu_flops = sum_of(results, &RunResult::hfu_flops);
  result.energy_joules = sum_of(results, &RunResult::energy_joules);
  result.gpu = mean_of_gpus(results);
  std::vector<std::vector<CounterResult>> counters;
  for (RunResult& rank : results) {
    for (const std::string& warning : rank.warnings) session.log().warn(warning);
    std::ranges::move(rank.ranks, std::back_inserter(result.ranks));
    counters.push_back(std::move(rank.counters));
  }
  result.counters = over_ranks(counters);
  for (const auto& dim : session.mesh().dims()) result.mesh.push_back({dim.name, dim.size});
}
}  // namespace optrush
