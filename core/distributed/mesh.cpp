#include <algorithm>
#include <initializer_list>

#include "base/contains.h"
#include "base/text.h"
#include "distributed/groups.h"
#include "optrush/error.h"

namespace optrush {
namespace {
/// The names of the dimensions along which ranks split one of these.
Mesh::Names names_of(const std::vector<Mesh::Dim>& dims, std::initializer_list<Splits> wanted) {
  Mesh::Names names;
  for (const Mesh::Dim& dim : dims)
    if (contains(wanted, dim.splits)) names.push_back(dim.name);
  return names;
}
}  // namespace

Mesh::Mesh() : groups_(std::make_unique<Groups>()) {}
Mesh::~Mesh() = default;

void Mesh::dim(Dim added) {
  if (added.size < 1)
    throw Error(ErrorCode::invalid_value,
                "mesh dimension '" + added.name + "' has size " + std::to_string(added.size),
                "give a size of at least 1");
  for (const Dim& dim : dims_) {
    if (dim.name != added.name) continue;
    if (dim.splits != added.splits)
      throw Error(ErrorCode::conflict,
                  "mesh dimension '" + dim.name + "' is declared twice with different splits");
    if (dim.size != added.size)
      throw Error(ErrorCode::conflict, "mesh dimension '" + dim.name + "' is declared with the sizes " +
                                           std::to_string(dim.size) + " and " + std::to_string(added.size));
    return;
  }
  dims_.push_back(std::move(added));
  std::ranges::sort(dims_, {},
                    [](const Dim& dim) { return std::pair(dim.nearness, std::string_view(dim.name)); });
}

void RunMesh::settle(int64_t world_rank, int64_t world_size) {
  int64_t declared = 1;
  bool has_dp = false;
  std::vector<std::string> sizes;
  for (const Dim& dim : dims_) {
    declared *= dim.size;
    has_dp = has_dp || dim.name == "dp";
    sizes.push_back(dim.name + " " + std::to_string(dim.size));
  }
  if (world_size % declared != 0 || (has_dp && declared != world_size))
    throw Error(ErrorCode::wrong_ranks,
                "the mesh (" + join(sizes) + ") has " + std::to_string(declared) +
                    " places, but the run has " + std::to_string(world_size) +
                    (world_size == 1 ? " rank" : " ranks"),
                "set train.world_size to " + (has_dp ? "" : std::string("a multiple of ")) +
                    std::to_string(declared) + ", or change the sizes of the mesh");
  if (!has_dp && world_size > declared) dim({"dp", world_size / declared, Splits::batch, 20});
  world_rank_ = world_rank;
  world_size_ = world_size;
}

size_t Mesh::index_of(std::string_view name) const {
  return static_cast<size_t>(std::ranges::find(dims_, name, &Dim::name) - dims_.begin());
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

int64_t Mesh::size(const Names& dims) const {
  int64_t product = 1;
  for (const auto& name : dims) product *= size(name);
  return product;
}

int64_t Mesh::rank(const Names& dims) const {
  int64_t place = 0;
  for (size_t i = 0; i < dims_.size(); ++i)
    if (contains(dims, dims_[i].name)) place = place * dims_[i].size + coordinate(i, world_rank_);
  return place;
}

Mesh::Names Mesh::all() const {
  Names names;
  for (const Dim& dim : dims_) names.push_back(dim.name);
  return names;
}

Mesh::Names Mesh::batch() const { return names_of(dims_, {Splits::batch}); }
Mesh::Names Mesh::sequence() const { return names_of(dims_, {Splits::sequence}); }
Mesh::Names Mesh::data() const { return names_of(dims_, {Splits::batch, Splits::sequence}); }
Mesh::Names Mesh::layers() const { return names_of(dims_, {Splits::layers}); }

Group& Mesh::group(const Names& names) const {
  if (!groups_->connected())
    throw Error(ErrorCode::invalid_plugin, "process groups were requested before the mesh was connected",
                "request them in Event::mesh_initialized or later");
  std::vector<bool> along(dims_.size(), false);
  for (const auto& name : names) {
    const size_t i = index_of(name);
    if (i < dims_.size()) along[i] = true;  // an undeclared dimension has size 1
  }
  Names here;
  for (size_t i = 0; i < dims_.size(); ++i)
    if (along[i] && dims_[i].size > 1) here.push_back(dims_[i].name);
  const std::string name = here.empty() ? "alone" : join(here, "+");
  if (Group* known = groups_->find(name)) return *known;
  // Members have the same coordinate as this rank in every other dimension.
  std::vector<int64_t> members;
  int64_t rank = 0;
  for (int64_t other = 0; other < world_size_; ++other) {
    bool member = true;
    for (size_t i = 0; i < dims_.size(); ++i)
      member = member && (along[i] || coordinate(i, other) == coordinate(i, world_rank_));
    if (!member) continue;
    if (other == world_rank_) rank = static_cast<int64_t>(members.size());
    members.push_back(other);
  }
  return groups_->make(name, members, rank);
}
}  // namespace optrush
