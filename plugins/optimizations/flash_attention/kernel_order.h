#pragma once
#include <string>
#include <vector>

namespace optrush {
/// Fused attention kernels for a GPU of that architecture ("sm_90"), the preferred one first. Empty if no
/// order is known; LibTorch's order then stays.
///
/// At the shapes of training, cuDNN is 1.7 to 2.3 times as fast as FlashAttention 2 on Hopper (sm_90), as
/// fast on Ada (sm_89), 0.82 times on A100 (sm_80), 0.88 times on a Blackwell workstation (sm_120), as
/// reported in transformers pull request 48163. It has no figure for Blackwell in data centers (sm_100), on
/// which LibTorch prefers cuDNN.
std::vector<std::string> kernel_order(const std::string& architecture);
}  // namespace optrush
