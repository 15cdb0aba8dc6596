#pragma once
#include "distributed/groups.h"
#include "optrush/mesh.h"

namespace optrush {
/// The mesh of a run as the host has it.
class RunMesh final : public Mesh {
 public:
  /// Fixes every size and this rank's place. An Error where the ranks can't fill the dimensions.
  void settle(int64_t world_rank, int64_t world_size);
  Groups& groups() { return *groups_; }
  const Groups& groups() const { return *groups_; }
};
}  // namespace optrush
