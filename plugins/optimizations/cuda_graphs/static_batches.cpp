#include "static_batches.h"

#include <algorithm>

#include "optrush/error.h"
#include "optrush/step.h"

namespace optrush::cuda_graphs {
namespace {
using NamedTensor = decltype(Batch::named)::value_type;

/// Each element once: an expanded dimension has one.
Tensor unexpanded(Tensor tensor) {
  for (int64_t axis = 0; axis < tensor.dim(); ++axis)
    if (tensor.stride(axis) == 0 && tensor.size(axis) > 1) tensor = tensor.narrow(axis, 0, 1);
  return tensor;
}

void check_same(bool same, const std::string& what) {
  if (!same)
    throw Error("a step differs from the recorded one in " + what,
                "cuda_graphs needs steps of equal shape: remove it, or use data of equal shape");
}
}  // namespace

StaticBatches::StaticBatches(const Step& step) {
  for (int64_t micro = 0; micro < step.microbatches(); ++micro) batches_.push_back(step.batch(micro));
}

void StaticBatches::copy_from(const Step& step) const {
  check_same(step.microbatches() == static_cast<int64_t>(batches_.size()), "its number of micro-batches");
  for (size_t micro = 0; micro < batches_.size(); ++micro) {
    const Batch& fresh = step.batch(static_cast<int64_t>(micro));
    const Batch& kept = batches_[micro];
    check_same(fresh.token_count == kept.token_count, "its number of trained tokens");
    check_same(fresh.valid_tokens == kept.valid_tokens && fresh.valid_sequences == kept.valid_sequences,
               "the trained tokens of a micro-batch");
    check_same(fresh.sequence_count == kept.sequence_count, "its number of trained sequences");
    check_same(fresh.segments.max_seqlen == kept.segments.max_seqlen, "the length of its longest document");
    check_same(std::ranges::equal(fresh.named, kept.named, {}, &NamedTensor::first, &NamedTensor::first),
               "the names of its batch's tensors");
    const auto from = fresh.tensors(), to = kept.tensors();
    for (size_t i = 0; i < to.size(); ++i) {
      const bool given = from[i].defined();
      check_same(given == to[i].defined() &&
                     (!given || (from[i].sizes() == to[i].sizes() && from[i].strides() == to[i].strides() &&
                                 from[i].scalar_type() == to[i].scalar_type())),
                 "the shape of its batch");
      if (given) unexpanded(to[i]).copy_(unexpanded(from[i]), /*non_blocking=*/true);
    }
  }
}
}  // namespace optrush::cuda_graphs
