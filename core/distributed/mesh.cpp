#include "optrush/mesh.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "base/suggest.h"
#include "distributed/process_group.h"
#include "optrush/error.h"

namespace optrush {
namespace {
/// Outermost first.
size_t order(const std::string& name) {
  static const std::vector<std::string> known = {"pp", "dp", "cp", "tp"};
  return static_cast<size_t>(std::find(known.begin(), known.end(), name) - known.begin());
}
}  // namespace

struct Mesh::Groups {
  c10::intrusive_ptr<c10d::Store> store;
  std::map<std::string, c10::intrusive_ptr<c10d::ProcessGroup>> made;
};

Mesh::Mesh() : groups_(std::make_unique<Groups>()) {}
Mesh::~Mesh() = default;

void Mesh::dim(std::string name, int64_t size, Splits splits) {
  if (size < 1) throw Error("mesh dimension '" + name + "' has size " + std::to_string(size), "at least 1");
  for (const Dim& dim : dims_) {
    if (dim.name != name) continue;
    if (dim.size != size)
      throw Error("mesh dimension '" + name + "' has sizes " + std::to_string(dim.size) + " and " +
                  std::to_string(size));
    return;
  }
  dims_.push_back({std::move(name), size, splits});
  std::sort(dims_.begin(), dims_.end(), [](const Dim& a, const Dim& b) {
    return std::pair(order(a.name), a.name) < std::pair(order(b.name), b.name);
  });
}

void Mesh::settle(int64_t world_rank, int64_t world_size) {
  int64_t declared = 1;
  bool has_dp = false;
  for (const Dim& dim : dims_) declared *= dim.size, has_dp = has_dp || dim.name == "dp";
  if (world_size % declared != 0 || (has_dp && declared != world_size))
    throw Error(
        "the mesh has " + std::to_string(declared) + " places and the run " + std::to_string(world_size) +
            " ranks",
        "start a multiple of " + std::to_string(declared) + " processes, or change the sizes of the mesh");
  if (!has_dp && world_size > declared) dim("dp", world_size / declared, Splits::batch);
  world_rank_ = world_rank;
  world_size_ = world_size;
}

void Mesh::connect(c10::intrusive_ptr<c10d::Store> store) { groups_->store = std::move(store); }

size_t Mesh::index_of(std::string_view name) const {
  const auto found =
      std::find_if(dims_.begin(), dims_.end(), [&](const Dim& dim) { return dim.name == name; });
  return static_cast<size_t>(found - dims_.begin());
}

int64_t Mesh::coordinate(size_t dim, int64_t world_rank) const {
  for (size_t i = dims_.size() - 1; i > dim; --i) world_rank /= dims_[i].size;
  return world_rank % dims_[dim].size;
}

int64_t Mesh::size(std::string_view name) const {
  const size_t i = index_of(name);
  return i < dims_.size() ? dims_[i].size : 1;
}

int64_t Mesh::rank(std::string_view name) const {
  const size_t i = index_of(name);
  return i < dims_.size() ? coordinate(i, world_rank_) : 0;
}

std::vector<std::string> Mesh::data() const {
  std::vector<std::string> names;
  for (const Dim& dim : dims_)
    if (dim.splits != Splits::nothing) names.push_back(dim.name);
  return names;
}

int64_t Mesh::data_size() const {
  int64_t size = 1;
  for (const auto& name : data()) size *= this->size(name);
  return size;
}

int64_t Mesh::world_size() const { return world_size_; }
int64_t Mesh::world_rank() const { return world_rank_; }

void Mesh::sum(at::Tensor& tensor, const std::vector<std::string>& names) const {
  int64_t ranks = 1;
  for (const auto& name : names) ranks *= size(name);
  if (ranks == 1) return;
  std::vector<at::Tensor> tensors = {tensor};
  group(names).allreduce(tensors)->wait();
}

c10d::ProcessGroup& Mesh::group(const std::vector<std::string>& names) const {
  if (!groups_->store)
    throw Error("process groups are asked for before the mesh is connected", "use Event::meshed or later");
  std::vector<bool> along(dims_.size(), false);
  for (const auto& name : names) {
    const size_t i = index_of(name);
    if (i == dims_.size()) throw Error("the mesh has no dimension '" + name + "'");
    along[i] = true;
  }
  // Members agree with this rank in every other dimension.
  int64_t size = 0, rank = 0, leader = -1;
  for (int64_t other = 0; other < world_size_; ++other) {
    bool member = true;
    for (size_t i = 0; i < dims_.size(); ++i)
      member = member && (along[i] || coordinate(i, other) == coordinate(i, world_rank_));
    if (!member) continue;
    if (leader < 0) leader = other;
    if (other == world_rank_) rank = size;
    ++size;
  }
  const std::string key = join(names, "+") + "@" + std::to_string(leader);
  auto& group = groups_->made[key];
  if (!group)
    group = make_process_group(c10::make_intrusive<c10d::PrefixStore>("mesh/" + key, groups_->store),
                               static_cast<int>(rank), static_cast<int>(size));
  return *group;
}
}  // namespace optrush
