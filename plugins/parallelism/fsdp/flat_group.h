#pragma once
#include <optional>

#include "flat_plan.h"
#include "flat_storage.h"
#include "optrush/shard.h"

namespace optrush::fsdp {
/// The tensors of a plan: this rank's piece, which stays in memory, and the whole tensor, which is gathered
/// and freed. With a codec, each field has such a pair.
class FlatGroup {
 public:
  /// `ranks`: the group of plan.dims. Sets the parameters' layout to what this rank keeps. The first stored
  /// value allocates memory.
  FlatGroup(FlatPlan plan, Group& ranks, at::Device device, bool piece_on_host);

  const FlatPlan& plan() const { return plan_; }
  /// The elements that this rank keeps, as an optimizer sees them. They lie in piece().
  const std::vector<Segment>& segments() const { return segments_; }
  /// The segment of a parameter. This rank must keep an element of it.
  const Segment& segment_of(const Param&) const;
  /// Mesh dimensions along which ranks keep different elements.
  const std::vector<std::string>& sharded_over() const { return split_over_; }
  /// Requires a group without a codec.
  const Tensor& piece() const { return fields_.front().piece; }
  Group& ranks() const { return ranks_; }
  /// Mesh dimensions over which the flat tensor is cut.
  const Mesh::Names& dims() const { return plan_.dims; }

  /// Stores the elements of param.layout. The parameter gets its leaf, or its stored tensors.
  void store(Param& param, const Tensors& values);

  /// Allocates memory and starts the gather, unless it is already started.
  void start_gather();
  void wait();
  void free();
  /// Whether the whole tensor is gathered, or is being gathered.
  bool present() const { return fields_.front().whole.allocated(); }
  /// Whether the piece was written after the last gather.
  bool outdated() const;
  /// Bytes that one gather brings.
  double gathered_bytes() const;
  /// The number of gathers so far.
  int64_t gathers() const { return gathers_; }

 private:
  struct Field {
    FlatStorage whole;
    int64_t elements_per_entry;
    at::TensorOptions kept_as;
    Tensor piece = {};
    int64_t version = 0;  ///< of the piece when it was gathered last
  };
  void make_pieces();

  FlatPlan plan_;
  Group& ranks_;
  at::Device device_;
  std::vector<std::string> split_over_;
  std::vector<Segment> segments_;
  std::vector<Field> fields_;
  std::vector<WorkHandle> pending_;
  int64_t gathers_ = 0;
};
}  // namespace optrush::fsdp
