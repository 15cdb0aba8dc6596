#include "flat_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>

namespace optrush::fsdp {
namespace {
/// Compiled and vector kernels assume aligned matrices, so shards begin at multiples of this.
constexpr int64_t kAlignment = 16;

int64_t rounded_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

/// Parameters that an operator other than a matrix product reads: an embedding, a norm. They are not
/// gathered in compute_dtype.
std::set<const Param*> read_as_they_are(const std::vector<const Unit*>& units) {
  std::set<const Param*> found;
  const std::function<void(const Unit&)> look = [&](const Unit& unit) {
    for (const Module& module : unit.modules)
      if (module.role == "embedding" || module.role == "norm" || module.role == "add_norm")
        found.insert(module.params.begin(), module.params.end());
    for (const auto& child : unit.children) look(*child);
  };
  for (const Unit* unit : units) look(*unit);
  return found;
}

at::ScalarType gather_type_of(const Param& param, const Policy& policy, bool matrix_alone) {
  if (param.codec) return at::kByte;  // each field has a separate type
  if (policy.parameter_type == "bf16") return at::kBFloat16;
  return param.compute_dtype && matrix_alone ? *param.compute_dtype : param.dtype;
}

/// Whether an optimizer, a norm and a gather treat two parameters alike.
bool alike(const FlatPlan& plan, const Param& param, at::ScalarType gather_type) {
  const Param& first = plan.first();
  return first.trainable == param.trainable && first.decay == param.decay && first.dtype == param.dtype &&
         plan.gather_type == gather_type && first.codec == param.codec && first.counted == param.counted &&
         first.partial_over == param.partial_over && first.sharded_over == param.sharded_over &&
         first.absent_over == param.absent_over;
}

Mesh::Names without(Mesh::Names dims, const Mesh::Names& others) {
  std::erase_if(dims, [&](const auto& dim) { return std::ranges::find(others, dim) != others.end(); });
  return dims;
}

int64_t block_of(const Param& param) {
  const int64_t coded = param.codec ? std::lcm(kAlignment, param.codec->block()) : kAlignment;
  return std::lcm(coded, param.block);
}

void lay_out(FlatPlan& plan, int64_t ranks) {
  int64_t cut = 1;
  for (Placed& placed : plan.params) {
    const int64_t block = block_of(*placed.param);
    cut = std::lcm(cut, block);
    placed.at = rounded_up(plan.size, block);
    plan.size = placed.at + placed.numel();
  }
  plan.piece = rounded_up((plan.size + ranks - 1) / ranks, cut);
  plan.size = plan.piece * ranks;
}
}  // namespace

int64_t FlatPlan::numel() const {
  int64_t sum = 0;
  for (const Placed& placed : params) sum += placed.numel();
  return sum;
}

Layout FlatPlan::kept(const Placed& placed, int64_t rank) const {
  const auto inside = [&](int64_t element) {
    return std::clamp<int64_t>(element - placed.at, 0, placed.numel());
  };
  return placed.box.range(inside(rank * piece), inside((rank + 1) * piece));
}

int64_t FlatPlan::at_in_piece(const Placed& placed, int64_t rank) const {
  return std::max<int64_t>(0, placed.at - rank * piece);
}

std::vector<FlatPlan> make_plans(const std::vector<const Unit*>& units, const Policy& policy,
                                 const Mesh& mesh, const Mesh::Names& dims) {
  const auto kept_as_they_are = read_as_they_are(units);
  std::vector<FlatPlan> plans;
  std::set<const Param*> known;
  for (size_t owner = 0; owner < units.size(); ++owner) {
    for (Param* param : units[owner]->params()) {
      // A tied parameter belongs to the first unit that uses it.
      if (!known.insert(param).second) continue;
      if (!param->trainable && !policy.gathers_each_unit()) continue;
      const auto type = gather_type_of(*param, policy, !kept_as_they_are.contains(param));
      auto plan = std::ranges::find_if(
          plans, [&](const FlatPlan& each) { return each.owner == owner && alike(each, *param, type); });
      if (plan == plans.end()) {
        plans.push_back({.owner = owner,
                         .unit = units[owner]->path,
                         .dims = without(dims, param->absent_over),
                         .own_type = param->trainable ? param->dtype : type,
                         .gather_type = type});
        plan = plans.end() - 1;
      }
      plan->params.push_back({param, param->layout});
    }
  }
  for (FlatPlan& plan : plans) lay_out(plan, mesh.size(plan.dims));
  return plans;
}
}  // namespace optrush::fsdp
