#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "optrush/mesh.h"
#include "optrush/param.h"
#include "optrush/run.h"
#include "optrush/spec.h"
#include "optrush/unit.h"

namespace optrush::tensor_parallel {
/// How one label of an axis is cut.
struct AxisCut {
  Mesh::Names over;    ///< dimensions whose ranks have different parts
  Mesh::Names copied;  ///< dimensions whose ranks have the same part, and each a share of its gradient
  int64_t grain = 1;   ///< neighbouring elements that stay together: those of a head
};
using AxisCuts = std::map<std::string, AxisCut>;

/// Attention, or the feed-forward part of a layer: an MLP, or a mixture with all its experts. A rank's output
/// of one is a summand.
bool is_region(const Unit&, const LlamaSpec&);

/// [begin, end) of an axis of so many elements that this rank has.
struct Range {
  int64_t begin = 0, end = 0;
};
/// Even up to one grain. An Error where a rank would have nothing.
Range range_of(const AxisCut&, int64_t elements, const Mesh&, const std::string& what);

/// Cuts every parameter that has a labelled axis. Of the others it says over which ranks the gradients are
/// partial: those inside of regions, and with parts of the sequence the norms.
void cut_parameters(Run&, const AxisCuts&, const Mesh::Names& ranks, bool by_sequence);
}  // namespace optrush::tensor_parallel
