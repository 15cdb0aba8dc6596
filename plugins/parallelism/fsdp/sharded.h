#pragma once
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "gathers.h"
#include "optrush/advanced/data_parallel.h"
#include "optrush/recipe.h"
#include "reductions.h"

namespace optrush::fsdp {
/// Parameters, gradients and optimizer state in shards (arXiv:1910.02054, 2304.11277): each unit's parameters
/// are gathered before they are used, and its gradients are summed so that each rank keeps a piece.
class Sharded final : public DataParallel {
 public:
  /// `dims`: the mesh dimensions over which a parameter is cut if all ranks along them have it.
  Sharded(Run&, Policy, const Mesh::Names& dims);

  void store(Param&, Tensors values) override;
  void before_forward() override { leave_backward(); }
  void before_backward(const Tensor& out, bool last) override;
  void finish() override;
  void zero_gradients() override;
  std::span<Shard> shards() override { return shards_; }

  /// The unit with its gathers and frees; `inner` itself if it is not a top unit of this rank.
  UnitFunction wrap(UnitFunction inner, const Unit&);

  const std::deque<FlatGroup>& groups() const { return groups_; }
  const Gathers& gathers() const { return gathers_; }
  const Reductions& reductions() const { return reductions_; }
  /// The number of gathers so far, and the bytes of the gathered parameters.
  int64_t gathered_groups() const;
  double gathered_bytes() const;
  /// Theoretical bytes that this rank sends in a step.
  void expect_traffic(Run&) const;

 private:
  /// The autograd node that produced a tensor, and the output's number. The node is not kept alive: a later
  /// node at its address has another sequence number.
  struct Origin {
    static Origin of(const Tensor&);
    bool operator==(const Origin&) const = default;
    const void* node = nullptr;
    uint64_t sequence_number = 0;
    int64_t output = 0;
  };
  /// A top unit of this rank.
  struct Place {
    std::vector<FlatGroup*> groups;  ///< groups that it reads
    std::vector<size_t> owned;       ///< trainable groups whose gradients end with it, by number
    Place *before = nullptr, *after = nullptr;
    bool has_backward = false;  ///< in the last forward
    Origin out = {};            ///< of its output in the last forward
  };

  void make_places(const Run&);
  void listen();
  void enter_forward(Place&);
  /// Returns the unit's output. If it is the tensor that an earlier unit returned, it becomes a separate
  /// tensor object.
  Tensor leave_forward(Place&, Tensor out);
  void enter_backward(Place&);
  /// Ends the current backward, if there is one.
  void leave_backward();
  void drop(const std::vector<Place*>& over, const Place* next);
  void sum_gradients(const std::vector<Place*>& over);
  void gather_ahead(const Place* from, Place* Place::*next, bool backward);

  Policy policy_;
  std::deque<FlatGroup> groups_;
  std::vector<Shard> shards_;
  std::vector<size_t> trainable_;            ///< groups of reductions_, by their number there
  std::map<const Param*, size_t> shard_of_;  ///< for each parameter of which this rank keeps elements
  std::map<const Param*, size_t> group_of_;
  std::deque<Place> places_;
  std::map<const Unit*, Place*> place_of_;
  Gathers gathers_;
  Reductions reductions_;
  std::vector<Place*> entered_;  ///< units whose backward has begun and may not be over
  bool in_backward_ = false, last_ = false, listening_ = false;
};
}  // namespace optrush::fsdp
