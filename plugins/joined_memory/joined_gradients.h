#pragma once
#include "optrush/tensor.h"

/// Gradients of tensors (.., N_i) that one operator returned, as columns of one tensor (.., sum of N_i). The
/// backward of an operator that got some of the tensors may write their gradients there. The operator that
/// returned them then multiplies all gradients at once, without a copy.
namespace optrush {
/// Offers places for the gradients of these outputs, which have equal sizes but for the last one. The
/// returned tensor (0) identifies them; a backward keeps it for joined_gradients. A copy of an output has no
/// place, so its gradient is made as without an offer.
Tensor offer_places(const Tensors& outputs);

/// A tensor (0) for place_of_gradient, which a backward keeps instead of the output; undefined if nothing is
/// offered. The output may be a view of what the operator returned.
Tensor offer_for(const Tensor& output);

/// The columns (.., N_i) for the gradient of this output; undefined if nothing is offered. The first request
/// allocates all columns.
Tensor place_of_gradient(const Tensor& output_or_offer);

/// The gradients as one tensor (.., sum of N_i), for the tensor that offer_places returned. Gradients that
/// are elsewhere are copied to their columns. Undefined if no place was requested. All gradients must be
/// defined.
Tensor joined_gradients(const Tensor& places, const Tensors& gradients);
}  // namespace optrush
