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
/// Traffic of this rank by one collective of one group.
struct Traffic {
  int64_t ranks = 1, calls = 0;
  double bytes = 0;  ///< of the tensors
  double sent = 0;   ///< of them on the wire, by the algorithm that moves the least
  bool operator==(const Traffic&) const = default;
};
/// By name of the collective and of the group.
using TrafficTable = std::map<std::pair<std::string, std::string>, Traffic>;

/// The groups of a run, and what they have in common: where they meet, how long they wait, what they sent.
class Groups {
 public:
  /// From here on groups can be made. `store` is none where nothing is sent: one rank, or a plan.
  void connect(const Ranks& ranks, c10::intrusive_ptr<c10d::Store> store, at::Device device);
  bool connected() const { return connected_; }

  /// The group of this name; null where it was not made yet.
  Group* find(const std::string& name) const;
  /// Makes the group of these world ranks, of which this process is number `rank`.
  Group& make(const std::string& name, const std::vector<int64_t>& members, int64_t rank);

  /// Since the run began.
  const TrafficTable& traffic() const { return traffic_; }
  /// While the guard lives, what is sent counts as the host's own bookkeeping and not as a technique's.
  std::shared_ptr<void> bookkeeping();
  /// Called around each wait: what it returns lives as long as the wait.
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
  Tensors abandoned_;  ///< of calls that were not done when their handles went: kept as long as connections
  std::map<std::string, std::unique_ptr<Group>> made_;
};
}  // namespace optrush
