#pragma once

namespace optrush {
/// For a function whose matmuls go past LibTorch's dispatcher (compiled code, kernels of one's own): says how
/// many FLOPs a call ran, multiply and add counted as two. `hfu` adds them to what it sees itself.
void note_flops(double flops);
}  // namespace optrush
