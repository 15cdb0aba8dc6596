#include "documents.h"

#include <ATen/Functions.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <limits>

#include "cpu/attention.h"
#include "optrush/forecast.h"
#include "window.h"

namespace optrush::flash::documents {
namespace {
/// (B, H, S, K) as the positions of one long row, (B x S, H, K), and back. The lse likewise, without K.
Tensor positions_of(const Tensor& x) { return x.transpose(1, 2).flatten(0, 1); }
Tensor heads_of(const Tensor& positions, int64_t batch) {
  return positions.unflatten(0, {batch, -1}).transpose(1, 2);
}

/// The lengths of documents that are not empty.
std::vector<int64_t> lengths_of(const Segments& segments) {
  const Tensor lengths = segments.cu_seqlens.diff().to(at::kLong);
  std::vector<int64_t> all(lengths.const_data_ptr<int64_t>(),
                           lengths.const_data_ptr<int64_t>() + lengths.numel());
  std::erase(all, 0);
  return all;
}

/// Each document as (1, H, length, K); the lse as (1, H, length).
Tensors apart(const Tensor& x, const std::vector<int64_t>& lengths) {
  Tensors parts = positions_of(x).split_with_sizes(lengths);
  for (Tensor& part : parts) part = part.transpose(0, 1).unsqueeze(0);
  return parts;
}

Tensor together(Tensors parts, int64_t batch) {
  for (Tensor& part : parts) part = part.squeeze(0).transpose(0, 1);
  return heads_of(at::cat(parts), batch);
}

/// The places where the memory-efficient kernel keeps the lse of each position: (documents, H, longest padded
/// length).
class PlacesOfLse {
 public:
  PlacesOfLse(const Segments& segments, int64_t positions) : segments_(segments) {
    const Tensor all = at::arange(positions, segments.cu_seqlens.options());
    document_ = at::bucketize(all, segments.cu_seqlens, /*out_int32=*/false, /*right=*/true) - 1;
    offset_ = all.to(at::kLong) - segments.cu_seqlens.to(at::kLong).index_select(0, document_);
  }
  /// (B x S, H)
  Tensor take(const Tensor& lse) const { return lse.transpose(1, 2).index({document_, offset_}); }
  Tensor put(const Tensor& lse) const {
    constexpr int64_t kAlignment = 32;
    const int64_t rows = (segments_.max_seqlen + kAlignment - 1) / kAlignment * kAlignment;
    const Tensor placed = at::full({segments_.cu_seqlens.numel() - 1, rows, lse.size(1)},
                                   std::numeric_limits<float>::infinity(), lse.options());
    return placed.index_put_({document_, offset_}, lse).transpose(1, 2).contiguous();
  }

 private:
  Segments segments_;
  Tensor document_, offset_;
};

int64_t mask_type(const AttentionArgs& args) { return args.causal ? 1 : 0; }

/// FLOPs of a kernel over all documents. `by_length`: whether they follow from the documents' lengths.
struct DocumentFlops {
  double flops;
  bool by_length;
};

/// Where a kernel has windows, a window leaves no more than 2 window - 1 pairs per position. If that is the
/// smaller number, each step has the same.
DocumentFlops flops_of(bool backward, const Tensor& q, const Tensor& v, const AttentionArgs& args) {
  const double width = static_cast<double>(q.size(1)) * widths_of_products(backward, q, v);
  const auto positions = static_cast<double>(q.size(0) * q.size(2));
  const bool windowed = args.window != 0 && (q.is_cuda() || cpu::supports(q.scalar_type()));
  const double seen = windowed ? static_cast<double>(2 * args.window - 1) * positions
                               : std::numeric_limits<double>::infinity();
  const double pairs = std::min(args.segments.pairs, seen);
  return {2 * pairs * width / (args.causal ? 2 : 1), args.segments.pairs <= seen};
}

/// On a GPU one operator computes all documents, and its sizes do not show its FLOPs. On a CPU each document
/// is one call, which is counted. docs/plugins/gpu_kernel.md describes the note about lengths.
void note_products(const DocumentFlops& made, bool on_gpu) {
  if (on_gpu) note_flops(made.flops);
  if (!made.by_length) return;
  const std::array<c10::IValue, 1> inputs = {c10::IValue(made.flops)};
  RECORD_FUNCTION("optrush::document_flops", c10::ArrayRef<const c10::IValue>(inputs.data(), inputs.size()));
}

/// Notes the FLOPs of a forward, and the FLOPs of its backward when autograd runs it.
AttentionOut noted(AttentionOut result, const Tensor& q, const Tensor& v, const AttentionArgs& args,
                   bool on_gpu) {
  note_products(flops_of(/*backward=*/false, q, v, args), on_gpu);
  if (result.out.requires_grad())
    result.out.register_hook([made = flops_of(/*backward=*/true, q, v, args), on_gpu](const Tensor&) {
      note_products(made, on_gpu);
    });
  return result;
}
}  // namespace

void note_flops_on_gpu(bool backward, const Tensor& q, const Tensor& v, const AttentionArgs& args) {
  note_products(flops_of(backward, q, v, args), /*on_gpu=*/true);
}

AttentionOut forward_each(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args,
                          const ForwardOfOne& forward) {
  const auto lengths = lengths_of(args.segments);
  const Tensors queries = apart(q, lengths), keys = apart(k, lengths), values = apart(v, lengths);
  Tensors outs, lses;
  for (size_t i = 0; i < lengths.size(); ++i) {
    auto [out, lse] = forward(queries[i], keys[i], values[i]);
    outs.push_back(std::move(out));
    lses.push_back(std::move(lse));
  }
  return noted({together(std::move(outs), q.size(0)), together(std::move(lses), q.size(0))}, q, v, args,
               /*on_gpu=*/false);
}

std::array<Tensor, 3> backward_each(const Tensor& gradient, const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& out, const Tensor& lse, const AttentionArgs& args,
                                    const BackwardOfOne& backward) {
  note_products(flops_of(/*backward=*/true, q, v, args), /*on_gpu=*/false);
  const auto lengths = lengths_of(args.segments);
  std::array<Tensors, 6> parts;
  const std::array<Tensor, 6> wholes = {gradient, q, k, v, out, lse};
  for (size_t i = 0; i < wholes.size(); ++i) parts[i] = apart(wholes[i], lengths);
  std::array<Tensors, 3> gradients;
  for (size_t i = 0; i < lengths.size(); ++i) {
    auto of_one = backward(parts[0][i], parts[1][i], parts[2][i], parts[3][i], parts[4][i], parts[5][i]);
    for (size_t j = 0; j < of_one.size(); ++j) gradients[j].push_back(std::move(of_one[j]));
  }
  std::array<Tensor, 3> result;
  for (size_t j = 0; j < result.size(); ++j) result[j] = together(std::move(gradients[j]), q.size(0));
  return result;
}

AttentionOut forward_on_gpu(bool efficient, const Tensor& q, const Tensor& k, const Tensor& v,
                            const AttentionArgs& args) {
  const Tensor& starts = args.segments.cu_seqlens;
  const int64_t longest = args.segments.max_seqlen, batch = q.size(0);
  const Tensor queries = positions_of(q), keys = positions_of(k), values = positions_of(v);
  if (!efficient || args.window != 0) {
    const auto [left, right] = window_of(args);
    const auto results = at::_flash_attention_forward(queries, keys, values, starts, starts, longest, longest,
                                                      0.0, args.causal, false, args.scale, left, right);
    return noted({heads_of(std::get<0>(results), batch), heads_of(std::get<1>(results).t(), batch)}, q, v,
                 args,
                 /*on_gpu=*/true);
  }
  const auto results = at::_efficient_attention_forward(
      queries.unsqueeze(0), keys.unsqueeze(0), values.unsqueeze(0), {}, starts, starts, longest, longest, 0.0,
      mask_type(args), /*compute_log_sumexp=*/true, args.scale);
  const PlacesOfLse places(args.segments, queries.size(0));
  return noted(
      {heads_of(std::get<0>(results).squeeze(0), batch), heads_of(places.take(std::get<1>(results)), batch)},
      q, v, args, /*on_gpu=*/true);
}

std::array<Tensor, 3> backward_on_gpu(bool efficient, const Tensor& gradient, const Tensor& q,
                                      const Tensor& k, const Tensor& v, const Tensor& out, const Tensor& lse,
                                      const AttentionArgs& args) {
  note_flops_on_gpu(/*backward=*/true, q, v, args);
  const Tensor& starts = args.segments.cu_seqlens;
  const int64_t longest = args.segments.max_seqlen, batch = q.size(0);
  const Tensor queries = positions_of(q), keys = positions_of(k), values = positions_of(v);
  const Tensor upstream = positions_of(gradient), result = positions_of(out).contiguous();
  const Tensor rows = positions_of(lse);
  Tensor dq, dk, dv;
  if (efficient && args.window == 0) {
    const Tensor state = at::empty({}, q.options().dtype(at::kLong));
    std::tie(dq, dk, dv, std::ignore) = at::_efficient_attention_backward(
        upstream.unsqueeze(0), queries.unsqueeze(0), keys.unsqueeze(0), values.unsqueeze(0), {},
        result.unsqueeze(0), starts, starts, longest, longest,
        PlacesOfLse(args.segments, queries.size(0)).put(rows), 0.0, state, state, mask_type(args),
        /*bias_requires_grad=*/false, args.scale);
    return {heads_of(dq.squeeze(0), batch), heads_of(dk.squeeze(0), batch), heads_of(dv.squeeze(0), batch)};
  }
  const auto [left, right] = window_of(args);
  std::tie(dq, dk, dv) = at::_flash_attention_backward(
      upstream, queries, keys, values, result, rows.t().contiguous(), starts, starts, longest, longest, 0.0,
      args.causal, at::empty({2}, q.options().dtype(at::kUInt64)),
      at::empty({}, q.options().dtype(at::kUInt64)), args.scale, left, right);
  return {heads_of(dq, batch), heads_of(dk, batch), heads_of(dv, batch)};
}
}  // namespace optrush::flash::documents
