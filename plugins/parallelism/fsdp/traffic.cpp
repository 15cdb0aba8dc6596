#include "traffic.h"

#include <algorithm>
#include <map>
#include <set>

namespace optrush::fsdp {
namespace {
bool reads(const UnitUse& unit, const FlatGroup* group) {
  return std::ranges::find(unit.groups, group) != unit.groups.end();
}

/// Whether each unit has a backward: in each chunk, the units from the first trainable one on.
std::vector<bool> with_backward(const std::vector<UnitUse>& units) {
  std::vector<bool> backward;
  bool seen = false;
  for (const UnitUse& unit : units) {
    if (unit.first_of_chunk) seen = !backward.empty();  // a later chunk gets an input with a gradient
    seen =
        seen || std::ranges::any_of(unit.groups, [](const auto* group) { return group->plan().trainable(); });
    backward.push_back(seen);
  }
  return backward;
}

/// How often a group is gathered for one micro-batch if each unit gathers the groups that it reads.
int64_t gathers_of(const FlatGroup* group, const std::vector<UnitUse>& units, bool reshard) {
  const auto backward = with_backward(units);
  int64_t gathers = 0;
  bool whole = false;
  const auto need = [&] {
    if (!std::exchange(whole, true)) ++gathers;
  };
  for (size_t i = 0; i < units.size(); ++i) {
    if (!reads(units[i], group)) continue;
    need();
    if (reshard || !backward[i]) whole = false;
  }
  for (size_t i = units.size(); i-- > 0;) {
    if (!reads(units[i], group) || !backward[i]) continue;
    need();
    bool wanted = i > 0 && backward[i - 1] && reads(units[i - 1], group);
    for (size_t earlier = 0; !reshard && earlier < i; ++earlier)
      wanted = wanted || (backward[earlier] && reads(units[earlier], group));
    whole = wanted;
  }
  return gathers;
}

double share_sent(int64_t ranks) { return static_cast<double>(ranks - 1) / static_cast<double>(ranks); }
}  // namespace

std::vector<Sent> traffic_of_step(const std::vector<UnitUse>& units, const std::deque<FlatGroup>& groups,
                                  const Policy& policy, const Reductions& reductions, const Mesh& mesh,
                                  int64_t microbatches) {
  std::vector<Sent> all;
  const auto add = [&](const char* collective, const Mesh::Names& dims, double bytes) {
    if (bytes > 0) all.push_back({collective, dims, bytes});
  };
  for (const FlatGroup& group : groups) {
    const Mesh::Names& dims = group.dims();
    const double share = share_sent(mesh.size(dims));
    const int64_t gathers = policy.gathers_each_unit()
                                ? microbatches * gathers_of(&group, units, policy.reshard_after_forward)
                                : 1;
    add("all_gather", dims, share * group.gathered_bytes() * static_cast<double>(gathers));
    if (!group.plan().trainable()) continue;
    const auto sums = static_cast<double>(policy.stage == 1 ? 1 : microbatches);
    const double bytes = sums * static_cast<double>(group.plan().numel()) *
                         static_cast<double>(at::elementSize(reductions.sent_type(group)));
    add("reduce_scatter", dims, share * bytes);
    const double piece = bytes / static_cast<double>(mesh.size(dims));
    const Mesh::Names replicas = reductions.replica_dims(group);
    const Mesh::Names& partial = group.plan().first().partial_over;
    add("all_reduce", replicas, 2 * share_sent(mesh.size(replicas)) * piece);
    add("all_reduce", partial, 2 * share_sent(mesh.size(partial)) * piece);
  }
  return all;
}
}  // namespace optrush::fsdp
