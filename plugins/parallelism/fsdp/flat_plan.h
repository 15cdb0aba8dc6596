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

  /// Parameters are gathered around each unit instead of once per step.
  bool gathers_each_unit() const { return stage == 3; }
};

/// A parameter in a flat tensor. Its box begins at element `at` and has no gaps.
struct Placed {
  Param* param = nullptr;
  Layout box;
  int64_t at = 0;
  int64_t numel() const { return box.numel(); }
};

/// Parameters of one top unit with equal treatment, one after the other in a flat tensor of `size` elements.
/// Each rank keeps `piece` elements of it.
struct FlatPlan {
  size_t owner = 0;  ///< the first top unit that uses them, by its number in the forward
  std::string unit;  ///< its path
  Mesh::Names dims;  ///< mesh dimensions over which the flat tensor is cut
  std::vector<Placed> params;
  int64_t size = 0, piece = 0;
  at::ScalarType own_type = at::kFloat;     ///< of the shard
  at::ScalarType gather_type = at::kFloat;  ///< of the leaves

  const Param& first() const { return *params.front().param; }
  bool trainable() const { return first().trainable; }
  /// Elements of parameters, which is `size` without padding.
  int64_t numel() const;
  /// The part of a parameter's box that rank `rank` keeps.
  Layout kept(const Placed&, int64_t rank) const;
  /// Where that part begins in the rank's piece.
  int64_t at_in_piece(const Placed&, int64_t rank) const;
};

/// Plans for all trainable parameters. At stage 3 they include frozen parameters. `units` are the top units
/// of every chunk in order of the forward. A piece begins at a multiple of 16 elements and cuts no block of
/// an optimizer or a codec. `dims`: the mesh dimensions over which a parameter is cut if all ranks
/// along them have it.
std::vector<FlatPlan> make_plans(const std::vector<const Unit*>& units, const Policy&, const Mesh&,
                                 const Mesh::Names& dims);
}  // namespace optrush::fsdp
