#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>

#include "kernel_parts/type.h"

namespace optrush::fused {
/// An Error names the operator and the type, or the device, if no kernel supports it.
Type type_of(const at::Tensor&, const std::string& op);
/// fp64 if x is fp64, otherwise fp32.
at::ScalarType wide_type(const at::Tensor& x);
/// Whether a CPU kernel should store past the caches: the results do not fit there, and each row of
/// `row_bytes` starts at a cache line.
bool worth_streaming(std::initializer_list<at::Tensor> results, int64_t row_bytes);
/// Rows that are worth a thread.
int64_t grain(int64_t width);
/// x itself if its last axis is dense, otherwise a copy.
at::Tensor dense_rows(const at::Tensor& x);
/// Like (B, H, S, ..), in memory as (B, S, H, ..), as linears write heads and attention takes them.
at::Tensor empty_heads(const at::Tensor& like);
/// `width` numbers in fp64: the sum of what `add` adds to `sums` for the rows [begin, end), on a CPU. The
/// parts of the rows depend only on the number of threads and are added in order, so each run gives the same
/// bits.
at::Tensor sum_over_rows(int64_t rows, int64_t width,
                         const std::function<void(int64_t begin, int64_t end, double* sums)>& add);
}  // namespace optrush::fused
