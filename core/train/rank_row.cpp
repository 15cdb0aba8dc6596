#include "train/rank_row.h"

#include <algorithm>

#include "base/host_name.h"
#include "distributed/rendezvous.h"
#include "train/counters.h"

namespace optrush {
namespace {
double per_step(double total, int64_t steps) {
  return total / static_cast<double>(std::max<int64_t>(1, steps));
}

Json row_of(const Json& result, const Session& session, const std::string& device) {
  const Json& exposed = result.at("phases").at("communication");
  const double seconds = result.at("step_seconds"), waited = exposed.is_number() ? exposed.get<double>() : 0;
  double sent = 0;
  for (const auto& collective : result.at("collectives")) sent += collective.at("sent_bytes").get<double>();
  return {{"rank", session.ranks().rank},
          {"host", host_name()},
          {"device", device},
          {"step_seconds", seconds},
          {"busy_seconds", seconds - waited},
          {"exposed_seconds", waited},
          {"peak_allocated", result.at("memory").at("peak_allocated")},
          {"parts", result.at("memory").at("parts").at("total")},
          {"sent_bytes", sent}};
}
}  // namespace

Json SentPerStep::collectives(const Session& session, int64_t steps) const {
  Json list = Json::array();
  for (const auto& [key, now] : session.traffic()) {
    const auto& [collective, group] = key;
    if (collective == "bookkeeping") continue;
    const auto found = before_.find(key);
    const Traffic before = found == before_.end() ? Traffic{} : found->second;
    if (now.calls == before.calls) continue;
    const auto theory = session.expected_traffic().find(key);
    list.push_back(
        {{"name", collective},
         {"group", group},
         {"ranks", now.ranks},
         {"calls", per_step(static_cast<double>(now.calls - before.calls), steps)},
         {"bytes", per_step(now.bytes - before.bytes, steps)},
         {"sent_bytes", per_step(now.sent - before.sent, steps)},
         {"theory_bytes", theory == session.expected_traffic().end() ? Json() : Json(theory->second)}});
  }
  return list;
}

void add_ranks(Json& result, Session& session, const std::string& device) {
  if (session.ranks().size == 1) return;
  const Json mine = row_of(result, session, device);
  const auto rows = gather_texts(*session.store(), session.ranks(), "rank_row", mine.dump());
  std::vector<std::string> counters;
  if (result.contains("counters"))
    counters = gather_texts(*session.store(), session.ranks(), "counters", result["counters"].dump());
  if (session.ranks().rank != 0) return;
  std::vector<Json> counted;
  for (const auto& text : counters) counted.push_back(Json::parse(text));
  if (!counted.empty()) result["counters"] = over_ranks(counted);
  for (const auto& row : rows) result["ranks"].push_back(Json::parse(row));
  for (const auto& dim : session.mesh().dims())
    result["mesh"].push_back({{"dim", dim.name}, {"size", dim.size}});
}
}  // namespace optrush
