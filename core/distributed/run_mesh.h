#pragma once
#include "distributed/groups.h"
#include "optrush/mesh.h"

namespace optrush {
/// The host's view of a mesh.
class RunMesh final : public Mesh {
 public:
  /// Sets the size of every dimension and the coordinates of this rank. The ranks must fill the dimensions.
  void settle(int64_t world_rank, int64_t world_size);
  Groups& groups() { return *groups_; }
  const Groups& groups() const { return *groups_; }
};
}  // namespace optrush
