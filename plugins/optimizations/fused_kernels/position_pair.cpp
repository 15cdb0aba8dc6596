#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>

#include "joined_memory/joined_gradients.h"
#include "kernel_parts/tensors.h"
#include "kernels.h"
#include "optrush/error.h"
#include "optrush/forecast.h"
#include "pairs.h"

namespace optrush::fused {
namespace {
Heads heads(const Tensor& in, const Tensor& out) {
  return {in.const_data_ptr(), out.data_ptr(), in.size(1),    in.stride(0), in.stride(1),
          in.stride(2),        out.stride(0),  out.stride(1), out.stride(2)};
}

/// The place (B, S, H K) as heads (B, H, S, K); undefined if it is not for such heads.
Tensor heads_of_place(const Tensor& place, const Tensor& heads) {
  const auto fits = [&] {
    return place.dim() == 3 && place.size(0) == heads.size(0) && place.size(1) == heads.size(2) &&
           place.size(2) == heads.size(1) * heads.size(3) && place.scalar_type() == heads.scalar_type();
  };
  if (!place.defined() || !fits()) return {};
  return place.view({heads.size(0), heads.size(2), heads.size(1), heads.size(3)}).transpose(1, 2);
}

/// Writes to new tensors, or to `places` where these are defined.
Tensors rotate(const Tensor& q_given, const Tensor& k_given, const Tensor& cos_given, const Tensor& sin_given,
               bool back, const Tensors& places = {{}, {}}) {
  const Tensor q = dense_rows(q_given), k = dense_rows(k_given);
  const int64_t width = q.size(3);
  if (width % 2 != 0 || k.size(3) != width || k.scalar_type() != q.scalar_type())
    throw Error(
        "the fused kernel of position needs q and k of the same type and the same even head width, not " +
        std::to_string(width) + " and " + std::to_string(k.size(3)));
  const std::vector<int64_t> table = {q.size(0), 1, q.size(2), width};
  const Tensor cos = cos_given.to(wide_type(q)).contiguous().expand(table);
  const Tensor sin = sin_given.to(wide_type(q)).contiguous().expand(table);
  const Tensors out = {places[0].defined() ? places[0] : empty_heads(q),
                       places[1].defined() ? places[1] : empty_heads(k)};
  const Rotate p{
      .type = type_of(q, "position"),
      .parts = {heads(q, out[0]), heads(k, out[1])},
      .cos = cos.const_data_ptr(),
      .sin = sin.const_data_ptr(),
      .table_batch = cos.stride(0),
      .table_token = cos.stride(2),
      .batch = q.size(0),
      .tokens = q.size(2),
      .width = width,
      .back = back,
      .stream = worth_streaming({out[0], out[1]}, width / 2 * static_cast<int64_t>(q.element_size()))};
  const NotedKernel kernel("position", bytes_of({q, k, cos, sin, out[0], out[1]}));
  if (is_forecast(q)) return out;
  if (q.is_cuda()) {
    const c10::DeviceGuard guard(q.device());
    gpu::rotate(p);
    return out;
  }
  at::parallel_for(0, p.batch * p.tokens, grain((q.size(1) + k.size(1)) * width),
                   [&](int64_t begin, int64_t end) { cpu::rotate(p, begin, end); });
  return out;
}
}  // namespace

Differentiable position() {
  return {{.name = "fused_position",
           .forward = [](const Tensors& in) -> Differentiable::Result {
             return {rotate(in[0], in[1], in[2], in[3], false),
                     {in[2], in[3], offer_for(in[0]), offer_for(in[1])}};
           },
           .backward = [](const Tensors& saved, const Tensors& g) -> Tensors {
             // An undefined gradient needs no rotation.
             const Tensor none = (g[0].defined() ? g[0] : g[1]).narrow(1, 0, 0);
             const auto given = [&](const Tensor& gradient) { return gradient.defined() ? gradient : none; };
             const auto place = [&](size_t i) -> Tensor {
               return g[i].defined() ? heads_of_place(place_of_gradient(saved[2 + i]), g[i]) : Tensor();
             };
             const Tensors rotated =
                 rotate(given(g[0]), given(g[1]), saved[0], saved[1], true, {place(0), place(1)});
             return {g[0].defined() ? rotated[0] : Tensor(), g[1].defined() ? rotated[1] : Tensor(), Tensor(),
                     Tensor()};
           },
           .traits = {.trace = Trace::opaque, .capturable = true}}};
}
}  // namespace optrush::fused
