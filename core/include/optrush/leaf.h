#pragma once
#include <functional>
#include <vector>

#include "optrush/shard.h"

namespace optrush {
/// Calls `added` each time autograd has added to the gradient of a leaf, which `added` may take away. One
/// listener a leaf; it belongs to the DataParallel that owns the leaf.
void after_accumulation(const Tensor& leaf, std::function<void(const Tensor& leaf)> added);

/// For a DataParallel that keeps a parameter whole: its values become the leaf, or the stored tensors where
/// there is a codec, and what is trained becomes one shard more.
void keep_whole(Param& param, Tensors values, std::vector<Shard>& shards);
}  // namespace optrush
