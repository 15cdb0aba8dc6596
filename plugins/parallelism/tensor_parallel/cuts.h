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
  Mesh::Names over;      ///< dimensions along which ranks have different parts
  Mesh::Names copied;    ///< dimensions along which ranks have the same part, and a summand of its gradient
  int64_t grain = 1;     ///< neighbouring elements that stay together, such as the elements of a head
  int64_t elements = 0;  ///< of every axis with this label; 0: any number
};
using AxisCuts = std::map<std::string, AxisCut>;

/// Whether the unit is a region: attention, or the feed-forward part of a layer (an MLP, or a mixture with
/// all its experts). A rank's output of a region is a summand.
bool is_region(const Unit&, const LlamaSpec&);

/// The part [begin, end) of an axis of `elements` elements that this rank has.
struct Range {
  int64_t begin = 0, end = 0;
};
/// Parts differ by at most one grain. Throws an Error if a rank would have no element.
Range range_of(const AxisCut&, int64_t elements, const Mesh&, const std::string& what);

/// Cuts every parameter that has a labelled axis. For the others it sets the ranks over which their gradients
/// are partial: parameters inside of regions, and norms if ranks have parts of the sequence.
void cut_parameters(Run&, const AxisCuts&, const Mesh::Names& ranks, bool by_sequence);
}  // namespace optrush::tensor_parallel
