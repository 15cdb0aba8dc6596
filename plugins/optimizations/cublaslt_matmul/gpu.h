#pragma once
#include <string>

#include "optrush/tensor.h"

namespace optrush::cublaslt_matmul {
/// The stream of the current device on which this thread works: a cudaStream_t.
void* current_stream();
/// CUDA's name of the GPU: "NVIDIA H200".
std::string name_of_card(at::Device);
}  // namespace optrush::cublaslt_matmul
