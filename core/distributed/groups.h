#pragma once
#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "distributed/ranks.h"
#include "optrush/mesh.h"

namespace optrush {
/// Traffic of this rank for one collective in one group.
struct Traffic {
  int64_t ranks = 1, calls = 0;
  double bytes = 0;  ///< size of the tensors
  double sent = 0;   ///< bytes sent on the network by the algorithm that sends least
  bool operator==(const Traffic&) const = default;
};
/// Traffic by (collective, group).
using TrafficTable = std::map<std::pair<std::string, std::string>, Traffic>;

/// The groups of a run and their shared state: the store, the timeout and the traffic.
class Groups {
 public:
  Groups() = default;
  ~Groups();
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;

  /// Allows groups to be made. `store` is null if nothing is sent: one rank, or a plan.
  void connect(const Ranks& ranks, c10::intrusive_ptr<c10d::Store> store, at::Device device);
  bool connected() const { return connected_; }

  /// The group of this name; null if it was not made yet.
  Group* find(const std::string& name) const;
  /// Makes a group of these world ranks. This process has rank `rank` in it.
  Group& make(const std::string& name, const std::vector<int64_t>& members, int64_t rank);

  /// NCCL's communicators of this rank, also in a plan: one for each group, and each pair of ranks that send.
  int64_t communicators() const;

  /// Traffic since the start of the run.
  const TrafficTable& traffic() const { return traffic_; }
  /// While the guard lives, messages count as the host's bookkeeping and not as traffic of the training.
  std::shared_ptr<void> bookkeeping();
  /// Called before each wait; its result lives until the wait ends.
  using Exposed = std::function<std::shared_ptr<void>()>;
  void around_waits(Exposed exposed) { exposed_ = std::move(exposed); }

 private:
  friend class Group;
  friend class WorkHandle;
  bool connected_ = false;
  Ranks ranks_;
  c10::intrusive_ptr<c10d::Store> store_;
  at::Device device_ = at::kCPU;
  TrafficTable traffic_;
  Exposed exposed_;
  int bookkeeping_ = 0;
  /// Tensors of calls that had not finished when their handles were destroyed
  Tensors abandoned_;
  std::map<std::string, std::unique_ptr<Group>> made_;
};

/// The host's view of a mesh.
class RunMesh final : public Mesh {
 public:
  /// Sets the size of every dimension and the coordinates of this rank. The ranks must fill the dimensions.
  void settle(int64_t world_rank, int64_t world_size);
  Groups& groups() { return *groups_; }
};
}  // namespace optrush
