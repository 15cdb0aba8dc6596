#include "on_gpu.h"

#include <ATen/Functions.h>
#include <c10/core/DeviceGuard.h>

#include "gpu/quantize.h"
#include "kernel_parts/largest.h"
#include "kernel_parts/rounding.h"
#include "kernel_parts/tensors.h"
#include "optrush/forecast.h"

namespace optrush::float8 {
namespace {
/// Dense matrices and the size of the one that they make together.
struct Stacked {
  Tensors matrices;
  int64_t rows = 0, columns = 0;
};
Stacked stacked(at::TensorList given, Stacking stacking) {
  Stacked whole;
  for (const Tensor& each : given) {
    whole.matrices.push_back(each.contiguous());
    whole.rows = stacking == Stacking::vertical ? whole.rows + each.size(0) : each.size(0);
    whole.columns = stacking == Stacking::horizontal ? whole.columns + each.size(1) : each.size(1);
  }
  return whole;
}

/// Parts of the largest value of all matrices. If they are not noted, a pass over each matrix finds them.
struct LargestParts {
  Tensor parts;
  double bytes = 0;  ///< that are read to find it
  int64_t launches = 0;
};
LargestParts largest_parts(at::TensorList given, const Tensors& matrices) {
  LargestParts found;
  Tensors parts;
  for (size_t i = 0; i < matrices.size(); ++i) {
    parts.push_back(fused::noted_largest(given[i]));
    if (parts.back().defined()) continue;
    if (matrices[i].numel() == 0) {  // an expert without tokens
      parts.back() = at::zeros({1}, matrices[i].options().dtype(at::kFloat).requires_grad(false));
      continue;
    }
    const gpu::Numbers x{fused::type_of(matrices[i], "float8"), matrices[i].const_data_ptr(),
                         matrices[i].numel()};
    parts.back() =
        at::empty({gpu::parts_of(x)}, matrices[i].options().dtype(at::kFloat).requires_grad(false));
    found.bytes += bytes_of({matrices[i]});
    ++found.launches;
    if (is_forecast(matrices[i])) continue;
    const c10::DeviceGuard guard(matrices[i].device());
    gpu::find_largest(x, parts.back().mutable_data_ptr<float>());
  }
  found.parts = parts.size() == 1 ? parts.front() : at::cat(parts);
  return found;
}

/// With a scale for each group or block.
BothWays quantize_tiles(const Stacked& whole, Stacking stacking, Scaling scaling, bool both_ways) {
  const auto& [matrices, rows, columns] = whole;
  const auto options = matrices[0].options().requires_grad(false);
  const auto empty = [&](int64_t of_rows, int64_t of_columns) -> Scaled {
    const int64_t across = of_columns / kGroup;
    const auto fp32 = options.dtype(at::kFloat);
    return {at::empty({of_rows, of_columns}, options.dtype(at::kFloat8_e4m3fn)),
            scaling == Scaling::groupwise ? at::empty({across, of_rows}, fp32).t()
                                          : at::empty({of_rows / kGroup, padded_blocks(across)}, fp32),
            scaling};
  };
  BothWays made{empty(rows, columns), {}};
  if (both_ways) made.columns = empty(columns, rows);
  double bytes = bytes_of({made.rows.values, made.rows.scale, made.columns.values, made.columns.scale});
  for (const Tensor& matrix : matrices) bytes += bytes_of({matrix});
  const NotedKernel kernel("float8_quantize", bytes, std::ssize(matrices));
  if (is_forecast(matrices[0])) return made;
  const c10::DeviceGuard guard(options.device());
  const bool blocks = scaling == Scaling::blockwise;
  const int64_t padded = blocks ? made.rows.scale.size(1) : 0;
  int64_t row = 0, column = 0;
  for (const Tensor& matrix : matrices) {
    const int64_t first_scale = blocks ? row / kGroup * padded : column / kGroup * rows + row;
    gpu::quantize_groups(
        {.x = {fused::type_of(matrix, "float8"), matrix.const_data_ptr(), matrix.numel()},
         .blocks = blocks,
         .rows = matrix.size(0),
         .columns = matrix.size(1),
         .all_columns = columns,
         .padded = padded,
         .values = static_cast<uint8_t*>(made.rows.values.data_ptr()) + row * columns + column,
         .scales = made.rows.scale.mutable_data_ptr<float>() + first_scale,
         .transposed =
             both_ways ? static_cast<uint8_t*>(made.columns.values.data_ptr()) + column * rows : nullptr,
         .turned_scales = both_ways ? made.columns.scale.mutable_data_ptr<float>() + column : nullptr});
    (stacking == Stacking::vertical ? row : column) += matrix.size(stacking == Stacking::vertical ? 0 : 1);
  }
  return made;
}
}  // namespace

BothWays on_gpu::quantize(at::TensorList given, at::ScalarType type, Stacking stacking, bool both_ways,
                          const Delayed& delayed) {
  if (const auto found = fused::carried(given, {type, delayed, both_ways}); found != nullptr)
    return {{found->values, found->scale, Scaling::tensorwise},
            {found->transposed, found->scale, Scaling::tensorwise}};
  const Stacked whole = stacked(given, stacking);
  const auto& [matrices, rows, columns] = whole;
  const auto options = matrices[0].options().requires_grad(false);
  const bool known = delayed.past.defined();
  const LargestParts largest = known ? LargestParts{.parts = delayed.past} : largest_parts(given, matrices);
  BothWays made;
  made.rows = {at::empty({rows, columns}, options.dtype(type)), at::empty({1, 1}, options.dtype(at::kFloat)),
               Scaling::tensorwise};
  if (both_ways)
    made.columns = {at::empty({columns, rows}, options.dtype(type)), made.rows.scale, Scaling::tensorwise};
  double bytes = largest.bytes + bytes_of({made.rows.values, made.columns.values});
  for (const Tensor& matrix : matrices) bytes += bytes_of({matrix});
  const NotedKernel kernel("float8_quantize", bytes, largest.launches + std::ssize(matrices));
  if (is_forecast(matrices[0])) return made;
  const c10::DeviceGuard guard(options.device());
  int64_t row = 0, column = 0;
  for (const Tensor& matrix : matrices) {
    gpu::quantize({.x = {fused::type_of(matrix, "float8"), matrix.const_data_ptr(), matrix.numel()},
                   .mantissa = type == at::kFloat8_e5m2 ? 2 : 3,
                   .rows = matrix.size(0),
                   .columns = matrix.size(1),
                   .all_columns = columns,
                   .largest = largest.parts.const_data_ptr<float>(),
                   .parts = largest.parts.numel(),
                   .past = known,
                   .seen = delayed.seen.defined() ? delayed.seen.data_ptr<float>() : nullptr,
                   .values = static_cast<uint8_t*>(made.rows.values.data_ptr()) + row * columns + column,
                   .transposed = both_ways
                                     ? static_cast<uint8_t*>(made.columns.values.data_ptr()) + column * rows
                                     : nullptr,
                   .scale = static_cast<float*>(made.rows.scale.data_ptr())});
    (stacking == Stacking::vertical ? row : column) += matrix.size(stacking == Stacking::vertical ? 0 : 1);
  }
  return made;
}

Tensor on_gpu::transposed(const Tensor& values) {
  Tensor transposed = at::empty({values.size(1), values.size(0)}, values.options());
  const NotedKernel kernel("float8_transpose", bytes_of({values, transposed}));
  if (is_forecast(values)) return transposed;
  const c10::DeviceGuard guard(values.device());
  gpu::transpose(values.const_data_ptr(), transposed.data_ptr(), values.size(0), values.size(1));
  return transposed;
}

BothWays on_gpu::quantize_groups(at::TensorList given, Stacking stacking, bool both_ways) {
  return quantize_tiles(stacked(given, stacking), stacking, Scaling::groupwise, both_ways);
}

Scaled on_gpu::quantize_blocks(at::TensorList given) {
  return quantize_tiles(stacked(given, Stacking::vertical), Stacking::vertical, Scaling::blockwise, false)
      .rows;
}
}  // namespace optrush::float8
