#include "linear_function.h"

#include <ATen/Functions.h>

namespace optrush::nf4 {
Differentiable make_linear_function(const std::shared_ptr<const Nf4Codec>& codec,
                                    const std::vector<int64_t>& shape) {
  return {{.name = "nf4_linear",
           .forward = [codec, shape](const Tensors& in) -> Differentiable::Result {
             Tensors stored(in.begin() + 1, in.end());
             const Tensor weight = codec->decode_as(in[0].scalar_type(), stored, shape);
             return {{at::linear(in[0], weight)}, std::move(stored)};
           },
           .backward = [codec, shape](const Tensors& stored, const Tensors& gradients) -> Tensors {
             const Tensor& d_out = gradients[0];
             Tensors all(1 + stored.size());
             all[0] = at::matmul(d_out, codec->decode_as(d_out.scalar_type(), stored, shape));
             return all;
           },
           .traits = {.trace = Trace::pair, .capturable = true}}};
}
}  // namespace optrush::nf4
