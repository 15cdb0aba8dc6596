#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "optrush/run.h"

namespace optrush::fsdp {
/// Options of the user.
struct Policy {
  int64_t stage = 3;
  bool reshard_after_forward = true;
  int64_t prefetch = 1, limit = 2;
  std::string parameter_type = "model", reduce_type = "model";
  int64_t shard_ranks = 0;  ///< 0: all
  bool offload = false;

  /// Parameters are gathered around each unit, and not once a step.
  bool gathers_each_unit() const { return stage == 3; }
};

/// A parameter in a flat: its box lies there without gaps from element `at` on.
struct Placed {
  Param* param = nullptr;
  Layout box;
  int64_t at = 0;
  int64_t numel() const { return box.numel(); }
};

/// Parameters of one top unit that are treated alike, one after the other in one flat tensor of `size`
/// elements, of which each rank keeps a piece of `piece`.
struct FlatPlan {
  size_t owner = 0;  ///< number of the top unit that uses them first, in order of the forward
  std::string unit;  ///< its path
  Mesh::Names dims;  ///< of the mesh, over which the flat is cut
  std::vector<Placed> params;
  int64_t size = 0, piece = 0;
  at::ScalarType own_type = at::kFloat;     ///< of the shard
  at::ScalarType gather_type = at::kFloat;  ///< of the leaves

  const Param& first() const { return *params.front().param; }
  bool trainable() const { return first().trainable; }
  /// Elements of parameters: `size` without padding.
  int64_t numel() const;
  /// The part of a parameter's box that rank `rank` keeps.
  Layout kept(const Placed&, int64_t rank) const;
  /// Where that part begins in the rank's piece.
  int64_t at_in_piece(const Placed&, int64_t rank) const;
};

/// Parameters that a plan shards: all that are trainable, at stage 3 the frozen ones, too. `units` are the
/// top units in order of the forward, of every chunk. A piece begins at a multiple of 16 elements and cuts no
/// block of an optimizer or a codec. `dims`: the dimensions over which parameters are cut that all of them
/// have.
std::vector<FlatPlan> make_plans(const std::vector<const Unit*>& units, const Policy&, const Mesh&,
                                 const Mesh::Names& dims);
}  // namespace optrush::fsdp
