#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "base/contains.h"
#include "base/text.h"
#include "optrush/error.h"
#include "train/state.h"

namespace optrush {
namespace {
constexpr int64_t kAbsent = std::numeric_limits<int64_t>::min();
/// Copies that differ only by rounding differ by less than this, relative to the largest element.
constexpr double kRounding = 0x1p-10;

/// This rank's elements of a tensor of which other ranks have copies.
struct Copy {
  std::string name;
  Tensor elements;
};

Tensor as_integers(const Tensor& flat) {
  switch (flat.element_size()) {
    case 8:
      return flat.view(at::kLong);
    case 4:
      return flat.view(at::kInt);
    case 2:
      return flat.view(at::kShort);
    default:
      return flat.view(at::kByte);
  }
}

/// The sum of the elements' bits, computed on the device, in pieces: a sum in 64 bits may copy its input.
Tensor sum_of_bits(const Tensor& elements) {
  constexpr int64_t kPart = 1 << 20;
  const Tensor bits = as_integers(elements.contiguous().view(-1));
  Tensor sum = at::zeros({}, bits.options().dtype(at::kLong));
  for (int64_t at = 0; at < bits.numel(); at += kPart)
    sum = sum * 1000003 + bits.narrow(0, at, std::min(kPart, bits.numel() - at)).sum(at::kLong);
  return sum;
}

Tensor sums_on_host(const std::vector<Copy>& kept) {
  Tensors sums;
  for (const Copy& each : kept) sums.push_back(sum_of_bits(each.elements).cpu());
  return at::stack(sums);
}

/// For each entry: whether all ranks of the group that have it have the same value.
std::vector<bool> agreed(Group& group, const Tensor& sums) {
  const Tensor absent = sums.eq(kAbsent);
  // One reduction by maximum gives the largest value and the complement of the smallest.
  const Tensor both = at::stack({sums, at::where(absent, sums, sums.bitwise_not())});
  group.all_reduce_max(both).wait();
  std::vector<bool> same;
  for (int64_t i = 0; i < sums.numel(); ++i) {
    const auto largest = both[0][i].item<int64_t>(), least = both[1][i].item<int64_t>();
    same.push_back(largest == kAbsent || largest == ~least);
  }
  return same;
}

/// The first entry whose values differ; none if there is none.
std::optional<int64_t> first_difference(Group& group, const Tensor& sums) {
  const auto same = agreed(group, sums);
  const auto first = std::ranges::find(same, false);
  return first == same.end() ? std::nullopt : std::optional<int64_t>(first - same.begin());
}

std::string ranks_text(const std::vector<int64_t>& ranks) {
  std::vector<std::string> names;
  for (const int64_t rank : ranks) names.push_back(std::to_string(rank));
  return (ranks.size() == 1 ? "rank " : "ranks ") + join(names);
}

/// The ranks with this rank's value of entry `i` and the ranks with another one: "ranks 0, 2 and rank 1".
std::string who_differs(Group& group, int64_t world_rank, const Tensor& sums, int64_t i) {
  const Tensor mine = at::tensor({world_rank, sums[i].item<int64_t>()}, at::kLong);
  const Tensor gathered = at::empty({2 * group.size()}, at::kLong), all = gathered.view({-1, 2});
  group.all_gather(gathered, mine).wait();
  std::map<int64_t, std::vector<int64_t>> ranks;
  std::vector<int64_t> order;
  for (int64_t i = 0; i < group.size(); ++i) {
    const auto value = all[i][1].item<int64_t>();
    if (value == kAbsent) continue;
    if (!ranks.contains(value)) order.push_back(value);
    ranks[value].push_back(all[i][0].item<int64_t>());
  }
  std::string text;
  for (const int64_t value : order) text += (text.empty() ? "" : " and ") + ranks_text(ranks[value]);
  return text;
}

/// The largest difference of copies, relative to the largest element; infinite if it is not a number.
double apart(Group& group, const Tensor& elements, at::Device device) {
  const Tensor values = elements.to(device, at::kDouble).contiguous();
  // A maximum over ranks may drop a NaN.
  constexpr double kFar = std::numeric_limits<double>::infinity();
  const Tensor largest = at::nan_to_num(values, kFar, kFar, -kFar);
  const Tensor least = at::nan_to_num(values.neg(), kFar, kFar, -kFar);
  group.all_reduce_max(largest).wait();
  group.all_reduce_max(least).wait();
  const auto scale = std::max(largest.abs().max().item<double>(), least.abs().max().item<double>());
  const double distance = scale == 0 ? 0 : (largest + least).max().item<double>() / scale;
  return std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
}

bool in_memory(const Tensor& tensor) {
  return tensor.defined() && tensor.numel() > 0 && tensor.storage().nbytes() > 0;
}

class Replicas {
 public:
  explicit Replicas(Session& session) : session_(session), mesh_(session.mesh()) {}

  void check() {
    for (const auto& [dims, kept] : by_copies()) check_along(dims, kept);
    if (mesh_.size(mesh_.layers()) > 1) check_shared_by_layers();
    check_kept();
  }

 private:
  using ByCopies = std::map<Mesh::Names, std::vector<Copy>>;

  /// Parameters grouped by the mesh dimensions along which ranks hold copies, in the same order on all ranks.
  ByCopies by_copies() const {
    ByCopies found;
    const auto add = [&](const Param* param, const Tensor& elements, const Mesh::Names& sharded_over) {
      Mesh::Names dims = mesh_.all();
      std::erase_if(dims, [&](const auto& dim) {
        return contains(sharded_over, dim) || contains(mesh_.layers(), dim);
      });
      if (mesh_.size(dims) > 1) found[dims].push_back({param->name, elements});
    };
    for (const Shard& shard : session_.data_parallel().shards())
      for (const Segment& segment : shard.segments)
        add(segment.param, Shard::part(shard.data, segment), shard.sharded_over);
    for (const Param* param : std::as_const(session_).params().all()) {
      if (param->trainable) continue;
      for (const Tensor& stored : param->stored)
        if (in_memory(stored)) add(param, stored, param->sharded_over);
      if (in_memory(param->leaf)) add(param, param->leaf.detach(), param->sharded_over);
    }
    return found;
  }

  void check_along(const Mesh::Names& dims, const std::vector<Copy>& kept) {
    Group& group = mesh_.group(dims);
    const Tensor sums = sums_on_host(kept);
    const auto same = agreed(group, sums);
    const bool by_sums =
        std::ranges::all_of(dims, [&](const auto& dim) { return contains(mesh_.data(), dim); });
    std::optional<size_t> farthest;
    double most = 0;
    for (size_t i = 0; i < same.size(); ++i) {
      if (same[i]) continue;
      const double distance = by_sums ? 1 : apart(group, kept[i].elements, session_.device());
      if (farthest && distance <= most) continue;
      farthest = i;
      most = distance;
    }
    if (!farthest) return;
    const std::string& name = kept[*farthest].name;
    const std::string who = who_differs(group, mesh_.world_rank(), sums, static_cast<int64_t>(*farthest));
    if (most < kRounding)
      return session_.log().warn(
          "the copies of '" + name + "' differ in their last bits (" + who +
          "), because these ranks compute its gradient separately and round differently");
    fail(name, who);
  }

  /// Tensors of plugins that are saved once for all ranks.
  void check_kept() const {
    std::vector<Copy> shared;
    for (const auto& kept : session_.recipe().kept())
      if (kept.whose == Kept::shared) shared.push_back({kept.name, kept.view()});
    if (shared.empty()) return;
    Group& group = mesh_.group(mesh_.all());
    const Tensor sums = sums_on_host(shared);
    const auto i = first_difference(group, sums);
    if (!i || !session_.computes()) return;
    throw Error(ErrorCode::wrong_result,
                "the kept tensor '" + shared[static_cast<size_t>(*i)].name + "' differs between " +
                    who_differs(group, mesh_.world_rank(), sums, *i) +
                    ", but only the tensor of rank 0 is saved",
                "register a tensor of each rank with Kept::per_rank (optrush/recipe.h)");
  }

  /// A tied embedding exists at both ends of a pipeline. Each rank of the group knows the parameters of all.
  void check_shared_by_layers() {
    std::map<const Param*, Tensor> sums;
    for (const Shard& shard : session_.data_parallel().shards())
      for (const Segment& segment : shard.segments)
        sums[segment.param] = sum_of_bits(Shard::part(shard.data, segment)).cpu();
    std::vector<const Param*> params;
    std::set<const Param*> taken;
    for (const auto& unit : session_.units())
      for (const Param* param : unit->params())
        if (taken.insert(param).second) params.push_back(param);
    const Tensor all = at::full({std::ssize(params)}, kAbsent, at::kLong);
    for (size_t i = 0; i < params.size(); ++i)
      if (const auto found = sums.find(params[i]); found != sums.end())
        all[static_cast<int64_t>(i)].copy_(found->second);
    Group& group = mesh_.group(mesh_.layers());
    if (const auto i = first_difference(group, all))
      fail(params[static_cast<size_t>(*i)]->name, who_differs(group, mesh_.world_rank(), all, *i));
  }

  [[noreturn]] static void fail(const std::string& name, const std::string& who) {
    throw Error(
        ErrorCode::wrong_result,
        "the copies of '" + name + "' differ: " + who + " have diverged and no longer train the same model",
        "look for a plugin that draws random numbers in the optimizer or in 'gradients' (the "
        "generators differ by rank), or that updates parameters on some ranks only");
  }

  Session& session_;
  const Mesh& mesh_;
};
}  // namespace

void check_replicas(Session& session) {
  if (session.mesh().world_size() == 1 || session.ranks().alone) return;
  const at::NoGradGuard no_grad;
  const auto counted = session.groups().bookkeeping();
  Replicas(session).check();
}
}  // namespace optrush
