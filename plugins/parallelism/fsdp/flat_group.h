#pragma once
#include <optional>

#include "flat_plan.h"
#include "flat_storage.h"
#include "optrush/shard.h"

namespace optrush::fsdp {
/// The tensors behind a plan: this rank's piece, which stays, and the whole, which comes and goes. A codec
/// has several, one for each field.
class FlatGroup {
 public:
  /// `ranks`: those of plan.dims. Gives the parameters the layout of what stays here. No memory is taken
  /// before the first value is stored.
  FlatGroup(FlatPlan plan, Group& ranks, at::Device device, bool piece_on_host);

  const FlatPlan& plan() const { return plan_; }
  /// The elements that this rank keeps, as an optimizer sees them; they lie in piece().
  const std::vector<Segment>& segments() const { return segments_; }
  /// Of a parameter of which this rank keeps an element.
  const Segment& segment_of(const Param&) const;
  /// Mesh dimensions whose ranks keep other elements.
  const std::vector<std::string>& sharded_over() const { return split_over_; }
  /// Of a group without a codec.
  const Tensor& piece() const { return fields_.front().piece; }
  Group& ranks() const { return ranks_; }
  /// Of the mesh, over which the flat is cut.
  const Mesh::Names& dims() const { return plan_.dims; }

  /// Takes the elements of param.layout; the parameter gets its leaf, or its stored tensors.
  void store(Param& param, const Tensors& values);

  /// Takes memory and starts the gather, unless it is already started.
  void start_gather();
  void wait();
  void free();
  /// Gathered, or being gathered.
  bool present() const { return fields_.front().whole.allocated(); }
  /// The piece was written after the last gather.
  bool outdated() const;
  /// Of what is gathered at once.
  double gathered_bytes() const;
  /// How often it was gathered so far.
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
