#pragma once
#include <map>
#include <memory>
#include <vector>

#include "optrush/recipe.h"

namespace optrush::testing {
/// Fully sharded parameters (ZeRO stage 3, arXiv:1910.02054) in the smallest complete form: flat shards,
/// gathered around each unit in forward and backward, gradients reduced to the shard. It shows that the slots
/// carry it; every rank runs Gloo on the CPU.
class Sharded final : public DataParallel {
 public:
  explicit Sharded(Run&);

  void store(Param&, Tensors value) override;
  void finish() override;
  void zero_gradients() override;
  std::span<Shard> shards() override { return shards_; }

  /// Gather before the unit, free after it; the same again around its backward.
  UnitFunction wrap(UnitFunction inner, const Unit&);
  /// Bytes of gathered parameters now: zero between steps.
  int64_t gathered_bytes() const;

 private:
  /// Parameters of one unit that are decayed alike: one flat tensor, cut into one piece for each rank.
  struct Group {
    const Unit* owner = nullptr;
    bool decay = true;
    std::vector<Segment> segments;  ///< of whole parameters, in the flat tensor
    int64_t size = 0;               ///< elements, padded to a multiple of the ranks
    Tensor flat;                    ///< storage is empty while it is not gathered
    size_t shard = 0;
  };
  void gather(const std::vector<Group*>&);
  void release(const std::vector<Group*>&);
  void reduce(Group&);
  std::vector<Group*> groups_of(const Unit&);

  Mesh& mesh_;
  int64_t ranks_, rank_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::map<const Param*, Group*> group_of_;
  std::vector<Shard> shards_;
};

/// Records the two edits that make a recipe fully sharded.
void shard_fully(Recipe&, Sharded*& made);
}  // namespace optrush::testing
