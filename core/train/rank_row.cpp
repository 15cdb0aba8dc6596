#include "train/rank_row.h"

#include "distributed/rendezvous.h"
#include "machine/host_name.h"
#include "train/counters.h"

namespace optrush {
namespace {
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
          {"peak_reserved", result.at("memory").at("peak_reserved")},
          {"process", result.at("memory").at("process")},
          {"parts", result.at("memory").at("parts").at("total")},
          {"sent_bytes", sent}};
}
/// Null where a rank does not know its part.
Json sum_of(const std::vector<Json>& ranks, const char* field) {
  double sum = 0;
  for (const Json& rank : ranks) {
    if (!rank.at(field).is_number()) return {};
    sum += rank.at(field).get<double>();
  }
  return sum;
}
}  // namespace

void add_ranks(Json& result, Session& session, const std::string& device) {
  if (session.ranks().size == 1) return;
  Json& executed = result.at("flops_per_token").at("hfu");
  Json& joules = result.at("energy_joules");
  const Json mine = {{"row", row_of(result, session, device)},
                     {"executed", executed},
                     {"joules", joules},
                     {"counters", result.value("counters", Json())},
                     {"warnings", session.log().warnings()}};
  const auto texts = gather_texts(*session.store(), session.ranks(), "rank_row", mine.dump());
  if (session.ranks().rank != 0) return;
  std::vector<Json> told, counters;
  for (const auto& text : texts) told.push_back(Json::parse(text));
  // A rank counts its own operations over the tokens of all, and the energy of its own device.
  executed = sum_of(told, "executed");
  joules = sum_of(told, "joules");
  for (Json& rank : told) {
    for (const Json& warning : rank["warnings"]) session.log().warn(warning);
    result["ranks"].push_back(std::move(rank["row"]));
    if (!rank["counters"].is_null()) counters.push_back(std::move(rank["counters"]));
  }
  if (!counters.empty()) result["counters"] = over_ranks(counters);
  for (const auto& dim : session.mesh().dims())
    result["mesh"].push_back({{"dim", dim.name}, {"size", dim.size}});
}
}  // namespace optrush
