#pragma once
#include "optrush/differentiable.h"

namespace optrush {
/// The tensors that the MLP keeps between forward and backward.
enum class Keep : uint8_t {
  everything,  ///< level 0: x, gate, up and hidden
  input        ///< level 1: x
};

/// Which of the three matrices are trained: the others get no gradient.
struct TrainedMatrices {
  bool gate = true, up = true, down = true;
};

/// A whole SwiGLU MLP of plain linears as one pair: inputs x (.., D), gate and up (F, D), down (D, F). At
/// level 1 both halves work on `chunk` rows at a time, so that tensors of width F are never whole; 0 chooses.
Differentiable make_mlp_function(Keep, int64_t chunk, TrainedMatrices);

/// SiLU(gate) * up that keeps only its two inputs. The plain formula also keeps SiLU(gate).
Differentiable make_swiglu_function();
}  // namespace optrush
