#include "report/analysis/hardware_used.h"

#include <algorithm>
#include <set>

#include "spec/read_fields.h"

namespace optrush {
double hardware_used(const Json& context, const RunResult& result, int64_t ranks) {
  const auto all = static_cast<double>(ranks);
  const double measured = number(context, "threads").value_or(0), threads = result.threads.value_or(0);
  if (result.on_gpu || measured <= 0 || threads <= 0) return all;
  std::set<std::string> hosts;
  for (const RankResult& rank : result.ranks) hosts.insert(rank.host);
  // Threads that share a core count as one core.
  const auto cpu = context.find("cpu");
  const double cores = cpu == context.end() ? 0 : number(*cpu, "cores").value_or(0);
  const double machines = std::max(1.0, static_cast<double>(hosts.size()));
  return std::min(all * threads, machines * std::max(cores, measured)) / measured;
}
}  // namespace optrush
