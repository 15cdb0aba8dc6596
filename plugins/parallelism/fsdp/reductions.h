#pragma once
#include <array>
#include <deque>
#include <functional>
#include <vector>

#include "flat_group.h"

namespace optrush::fsdp {
/// Moves gradients from leaves to shards: it copies them into one flat buffer per group, sums them over the
/// ranks (each keeps its piece), and adds them to earlier micro-batches. Each parameter of a group has a
/// shard, so a parameter that no rank used in a step has no gradient.
class Reductions {
 public:
  /// Calls `final` with each shard whose gradient is complete.
  Reductions(const Policy& policy, Run& run, std::function<void(Shard&)> final);

  /// `shards` has this rank's shard of each parameter of the group; null if it has no element.
  void add_group(FlatGroup& group, std::vector<Shard*> shards);
  /// Copies the gradient of the `index`-th parameter of a group.
  void take(size_t group, size_t index, const Tensor& gradient);
  /// Starts the sum over the ranks of all gradients since the last sum. Parameters without a gradient count
  /// as zeros. `last`: no other sum of this group follows in this step.
  void start(size_t group, bool last);
  /// Later gradients belong to another micro-batch.
  void end_backward();
  /// Sums the groups that were not summed since the last micro-batch began, and waits for all sums.
  void finish();
  void begin_step();
  /// The type of sums that are sent, and of a shard's gradient.
  at::ScalarType sent_type(const FlatGroup&) const;
  /// Dimensions along which ranks hold copies of the shards and add up their gradients.
  Mesh::Names replica_dims(const FlatGroup&) const;
  size_t in_flight() const;

 private:
  struct State {
    FlatGroup* group;
    Mesh::Names replicas;
    std::vector<Shard*> shards;  ///< by parameter
    Tensor buffer;               ///< flat; undefined if no gradient was taken
    std::vector<char> taken;     ///< by parameter, since the last sum
    std::vector<char> used;      ///< by parameter, in this step on this rank
    Tensor piece;                ///< sums that arrived in this step
    bool started = false;        ///< a sum in this backward
    bool summed = false;         ///< for the last time in this step
    std::vector<char> told;      ///< by parameter
  };
  struct Sum {
    State* state;
    WorkHandle pending;
    Tensor whole, piece;  ///< what this rank adds, and its part of the sum
    bool last;
  };
  /// The stages of a sum, in order.
  enum Hop : size_t { scatter, replicas, partial, kHops };

  at::ScalarType gradient_type(const FlatGroup&) const;
  at::ScalarType wide_type(const FlatGroup&) const;
  void fill_gaps(State&) const;
  void advance(Sum, size_t hop);
  void arrive(size_t hop);
  void add_to_piece(const Sum&);
  /// Another rank may have used parameters that this rank did not.
  void agree_on_used();
  /// Gives the shards of these parameters their gradients, unless they already have them.
  void complete(State&, const std::vector<char>& used);

  const Policy& policy_;
  Run& run_;
  const Mesh& mesh_;
  bool local_sums_;  ///< gradients of micro-batches add up here before they are sent
  std::function<void(Shard&)> final_;
  std::vector<State> states_;
  std::array<std::deque<Sum>, kHops> sums_;
};
}  // namespace optrush::fsdp
