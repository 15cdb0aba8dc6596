#pragma once
#include <array>
#include <functional>

#include "optrush/ops.h"

/// Packed rows with attention inside each document only. Score matrices have the size of documents, not rows.
namespace optrush::flash::documents {
using ForwardOfOne = std::function<AttentionOut(const Tensor& q, const Tensor& k, const Tensor& v)>;
using BackwardOfOne =
    std::function<std::array<Tensor, 3>(const Tensor& gradient, const Tensor& q, const Tensor& k,
                                        const Tensor& v, const Tensor& out, const Tensor& lse)>;

/// One call for each document of args.segments. Reads their lengths on the host.
AttentionOut forward_each(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args,
                          const ForwardOfOne& forward);
std::array<Tensor, 3> backward_each(const Tensor& gradient, const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& out, const Tensor& lse, const AttentionArgs& args,
                                    const BackwardOfOne& backward);

/// One call for all documents, by the memory-efficient kernel or by FlashAttention.
AttentionOut forward_on_gpu(bool efficient, const Tensor& q, const Tensor& k, const Tensor& v,
                            const AttentionArgs& args);
std::array<Tensor, 3> backward_on_gpu(bool efficient, const Tensor& gradient, const Tensor& q,
                                      const Tensor& k, const Tensor& v, const Tensor& out, const Tensor& lse,
                                      const AttentionArgs& args);

/// Notes the FLOPs of a kernel that computes all documents on a GPU, or of its backward.
void note_flops_on_gpu(bool backward, const Tensor& q, const Tensor& v, const AttentionArgs& args);
}  // namespace optrush::flash::documents
